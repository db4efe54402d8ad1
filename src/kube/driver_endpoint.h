/* SPDX-License-Identifier: Apache-2.0 */

/* Where the HTTPS server of a CSI driver is, by its DriverDiscovery. */
#ifndef CAIRN_KUBE_DRIVER_ENDPOINT_H
#define CAIRN_KUBE_DRIVER_ENDPOINT_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;

/* Of a caBundle's text: more is not a bundle but an attack on our memory. */
#define KUBE_ENDPOINT_BUNDLE_MAX (1U << 20)

/* Texts are owned. */
struct kube_driver_endpoint {
	char *url;    /* without a "/" at the end */
	char *ca_pem; /* NULL: the system's authorities */
};

/* Reads spec.clientConfig. A caBundle must have at least one certificate that
 * has not expired.
 *
 * CAIRN_INVALID   the text says what is wrong
 * CAIRN_NO_SPACE  out of memory
 */
int kube_driver_endpoint_read(const json_t *discovery, struct kube_driver_endpoint *ret,
			      struct cairn_err *err);

/* Also a cleanup function. */
void kube_driver_endpoint_done(struct kube_driver_endpoint *endpoint);

/* Makes a request over TLS; any answer will do.
 *
 * CAIRN_UNAVAILABLE  no answer, or from a server that is not trusted
 */
int kube_driver_endpoint_probe(const struct kube_driver_endpoint *endpoint, uint64_t timeout_ms,
			       struct cairn_err *err);

#endif
