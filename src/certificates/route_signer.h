/* SPDX-License-Identifier: Apache-2.0 */

/* Signs the certificates of the sidecars of nodes (sidecar/route.h).
 *
 * A sidecar asks with a CertificateSigningRequest of the signer DRIVER/route. The API server
 * records in it who asked; tokens of pods also name the pod's node. A request is approved only
 * if it comes from the account of the sidecars and names a node, and the certificate is for
 * that node, whatever the request says: an attacker with the rights of one node cannot become
 * another.
 *
 * The authority is kept in the Secret RELEASE-route-ca and renewed like certificates of
 * services (certificate_plan.h); the ConfigMap of the same name has the authorities that
 * sidecars trust. All state is in these objects. Only the leader works.
 */
#ifndef CAIRN_CERTIFICATES_ROUTE_SIGNER_H
#define CAIRN_CERTIFICATES_ROUTE_SIGNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct certificates_options;
struct certificates_route_signer;

/* Starts the thread. `generations` is not used. */
int certificates_route_signer_new(const struct certificates_options *options,
				  struct certificates_route_signer **ret, struct cairn_err *err);
void certificates_route_signer_stop(struct certificates_route_signer *signer); /* idempotent */
void certificates_route_signer_free(struct certificates_route_signer *signer); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct certificates_route_signer, certificates_route_signer_free);

/* Sets whether this process leads; from any thread. */
void certificates_route_signer_lead(struct certificates_route_signer *signer, bool leads);

#endif
