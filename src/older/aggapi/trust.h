/* SPDX-License-Identifier: Apache-2.0 */

/* The front proxy that may act on behalf of users, as configured by the Kubernetes API
 * server.
 *
 * The ConfigMap kube-system/extension-apiserver-authentication contains the CA of the
 * front proxy's certificate, its allowed names and the request headers that carry the
 * user. The CA is written to a private file that the TLS settings watch, so a rotated one
 * takes effect without closing connections.
 */
#ifndef CAIRN_AGGAPI_TRUST_H
#define CAIRN_AGGAPI_TRUST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

struct aggapi_trust;
struct cairn_err;
struct kube_client;
struct net_http;

/* The contents of the ConfigMap; owns its strings. */
struct aggapi_proxy_rules {
	char *ca_pem;
	json_t *names;        /* allowed common names; empty: any that the CA signed */
	json_t *user_headers; /* lower case, in the order of preference */
	json_t *group_headers;
	json_t *uid_headers;
	json_t *extra_prefixes;
};

/* Reads the ConfigMap's data. CAIRN_INVALID if it has no CA or is malformed. */
int aggapi_proxy_rules_read(const json_t *configmap, struct aggapi_proxy_rules *ret,
			    struct cairn_err *err);
void aggapi_proxy_rules_done(struct aggapi_proxy_rules *rules);

/* Reads it once before returning and follows changes afterwards. The client is borrowed. */
int aggapi_trust_new(struct kube_client *client, struct aggapi_trust **ret, struct cairn_err *err);
void aggapi_trust_free(struct aggapi_trust *trust);
CAIRN_DEFINE_CLEANUP(struct aggapi_trust, aggapi_trust_free);

/* The file with the CA, for net_tls_options.ca_file. */
const char *aggapi_trust_ca_file(const struct aggapi_trust *trust);

/* Returns a header field of a request, by position. */
typedef bool (*aggapi_field_at)(const void *request, size_t i, const char **ret_name,
				const char **ret_value);

/* Whether the certificate of the request's peer is signed by the current CA. */
typedef bool (*aggapi_is_signed)(const void *request, const char *ca_pem);

/* Returns the UserInfo from the headers of a request whose peer showed a certificate with
 * that common name (NULL: it showed none). A connection may be older than the current CA,
 * so the certificate is checked for each request.
 *
 * CAIRN_UNAUTHENTICATED  no such certificate, not an allowed name, or no user
 * CAIRN_NO_SPACE         out of memory
 */
int aggapi_trust_user(struct aggapi_trust *trust, const char *peer_name, aggapi_is_signed is_signed,
		      aggapi_field_at fields, const void *request, json_t **ret,
		      struct cairn_err *err);

/* The same with the given rules. */
int aggapi_proxy_user(const struct aggapi_proxy_rules *rules, const char *peer_name,
		      aggapi_field_at fields, const void *request, json_t **ret,
		      struct cairn_err *err);

#endif
