/* SPDX-License-Identifier: Apache-2.0 */

/* The certificate of this node for routes, from a signer of Kubernetes.
 *
 * The key is created here and leaves the process only for the file beside the certificate. A
 * CertificateSigningRequest asks for the certificate; the API server records the node of the
 * pod whose token was used, which is all that the signer believes (`cairn manager --route`).
 * The files are replaced after two thirds of the certificate's life; the server reads them
 * again by itself.
 */
#ifndef CAIRN_SIDECAR_ROUTE_CERTIFICATE_H
#define CAIRN_SIDECAR_ROUTE_CERTIFICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct sidecar_route_certificate;

struct sidecar_route_certificate_options {
	struct kube_client *client; /* borrowed; all strings are borrowed too */
	const char *node;
	const char *signer; /* DRIVER/route */
	const char *cert_file, *key_file;
	uint64_t timeout_ms;     /* for the first certificate */
	bool (*is_ending)(void); /* whether to give up waiting for the first one; or NULL */
};

/* Waits for the first certificate, then keeps a thread that renews it.
 *
 * CAIRN_UNAVAILABLE  the signer did not answer in time
 * CAIRN_DENIED       it refused
 * CAIRN_CANCELLED    is_ending() said so
 * CAIRN_ABORTED      the request was deleted
 */
int sidecar_route_certificate_new(const struct sidecar_route_certificate_options *options,
				  struct sidecar_route_certificate **ret, struct cairn_err *err);
void sidecar_route_certificate_free(struct sidecar_route_certificate *certificate); /* or NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_route_certificate, sidecar_route_certificate_free);

#endif
