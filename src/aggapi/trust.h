/* SPDX-License-Identifier: Apache-2.0 */

/* Whom the Kubernetes API server says to believe when they speak for others.
 *
 * The ConfigMap kube-system/extension-apiserver-authentication holds the
 * authority of the front proxy's certificate, the names it may have and the
 * request headers in which it says who asks. The authority is written to a
 * private file that the TLS settings watch, so a rotated one is taken up while
 * connections live.
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

/* What the ConfigMap says; texts are owned. */
struct aggapi_proxy_rules {
	char *ca_pem;
	json_t *names;        /* allowed common names; empty: any that the authority signed */
	json_t *user_headers; /* lower case, in the order of preference */
	json_t *group_headers;
	json_t *uid_headers;
	json_t *extra_prefixes;
};

/* Reads the ConfigMap's data. CAIRN_INVALID when it names no authority or is
 * not what it should be. */
int aggapi_proxy_rules_read(const json_t *configmap, struct aggapi_proxy_rules *ret,
			    struct cairn_err *err);
void aggapi_proxy_rules_done(struct aggapi_proxy_rules *rules);

/* Reads it once, now, and follows it from then on. The client is borrowed. */
int aggapi_trust_new(struct kube_client *client, struct aggapi_trust **ret, struct cairn_err *err);
void aggapi_trust_free(struct aggapi_trust *trust);
CAIRN_DEFINE_CLEANUP(struct aggapi_trust, aggapi_trust_free);

/* The file with the authority, for net_tls_options.ca_file. */
const char *aggapi_trust_ca_file(const struct aggapi_trust *trust);

/* A field of a request, by position. */
typedef bool (*aggapi_field_at)(const void *request, size_t i, const char **ret_name,
				const char **ret_value);

/* Whether the certificate of the request's peer is one of these authorities now. */
typedef bool (*aggapi_is_signed)(const void *request, const char *ca_pem);

/* Who asks, from the headers of a request whose peer showed a certificate with
 * that common name (NULL: it showed none): a UserInfo. A connection may be older than
 * the authority that is named now, so each request is looked at.
 *
 * CAIRN_UNAUTHENTICATED  no such certificate, not an allowed name, or no user
 * CAIRN_NO_SPACE         out of memory
 */
int aggapi_trust_user(struct aggapi_trust *trust, const char *peer_name, aggapi_is_signed is_signed,
		      aggapi_field_at fields, const void *request, json_t **ret,
		      struct cairn_err *err);

/* The same from rules at hand. */
int aggapi_proxy_user(const struct aggapi_proxy_rules *rules, const char *peer_name,
		      aggapi_field_at fields, const void *request, json_t **ret,
		      struct cairn_err *err);

#endif
