/* SPDX-License-Identifier: Apache-2.0 */

/* The address of a CSI driver's HTTPS server, from its DriverDiscovery. */
#ifndef CAIRN_KUBE_DRIVER_ENDPOINT_H
#define CAIRN_KUBE_DRIVER_ENDPOINT_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;

/* Limit of a caBundle's text, against objects that exhaust memory. */
#define KUBE_ENDPOINT_BUNDLE_MAX (1U << 20)

/* Owns its strings. */
struct kube_driver_endpoint {
	char *url;    /* without a trailing "/" */
	char *ca_pem; /* NULL: the system's trust store */
};

/* Reads spec.clientConfig. A caBundle must contain at least one certificate that has not
 * expired.
 *
 * CAIRN_INVALID   the text says what is wrong
 * CAIRN_NO_SPACE  out of memory
 */
int kube_driver_endpoint_read(const json_t *discovery, struct kube_driver_endpoint *ret,
			      struct cairn_err *err);

/* Also a cleanup function. */
void kube_driver_endpoint_done(struct kube_driver_endpoint *endpoint);

/* Sends a request over TLS and accepts any HTTP answer.
 *
 * CAIRN_UNAVAILABLE  no answer, or the server is not trusted
 */
int kube_driver_endpoint_probe(const struct kube_driver_endpoint *endpoint, uint64_t timeout_ms,
			       struct cairn_err *err);

#endif
