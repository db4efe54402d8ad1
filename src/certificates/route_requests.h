/* SPDX-License-Identifier: Apache-2.0 */

/* Answers the CertificateSigningRequests of the sidecars of nodes: one pass of route_signer.h. */
#ifndef CAIRN_CERTIFICATES_ROUTE_REQUESTS_H
#define CAIRN_CERTIFICATES_ROUTE_REQUESTS_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct certificates_pair;
struct kube_client;

/* Where a token of a pod names the node; Kubernetes 1.30 and later. */
#define CERTIFICATES_NODE_EXTRA "authentication.kubernetes.io/node-name"

struct certificates_route_requests {
	struct kube_client *client;
	const char *account;      /* user name of the sidecars */
	const char *selector;     /* of the requests */
	const atomic_bool *leads; /* the pass ends when it is false */
	uint64_t life_s;          /* of a certificate */
	uint64_t now_s;
};

/* Answers every request that has no answer, up to a bound. One that fails does not keep the others
 * waiting; the first error is returned. */
int certificates_route_answer(const struct certificates_route_requests *requests,
			      const struct certificates_pair *authority, struct cairn_err *err);

/* The node that a CertificateSigningRequest is for, borrowed from it.
 *
 * CAIRN_DENIED  another account, no node, or other usages than those of both ends
 */
int certificates_route_judge(const json_t *request, const char *account, const char **ret_node,
			     struct cairn_err *err);

#endif
