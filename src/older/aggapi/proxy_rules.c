/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the user from the headers of the front proxy. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "net/http/http_head.h"
#include "older/aggapi/trust.h"

#define HEADER_NAME_MAX 256

/* A list in the ConfigMap is a string that contains JSON. */
static int read_list(const json_t *data, const char *key, bool lower, json_t **ret,
		     struct cairn_err *err)
{
	const char *text = kube_str(data, key);
	json_t *item;
	size_t i;

	*ret = NULL;
	if (!text || !*text) {
		*ret = json_array();
		return *ret ? 0 : cairn_err_nomem(err, "list");
	}
	if (kube_json_parse(text, strlen(text), ret, NULL) != 0 || !json_is_array(*ret))
		return cairn_err_set(err, CAIRN_INVALID, "%s is not a list", key);
	json_array_foreach(*ret, i, item)
	{
		char name[HEADER_NAME_MAX];
		const char *value = json_string_value(item);

		if (!value || strlen(value) >= sizeof(name))
			return cairn_err_set(err, CAIRN_INVALID, "%s is not a list of strings",
					     key);
		for (size_t k = 0; k <= strlen(value); k++)
			name[k] = lower ? (char)tolower((unsigned char)value[k]) : value[k];
		if (json_string_set(item, name) < 0)
			return cairn_err_nomem(err, "list");
	}
	return 0;
}

int aggapi_proxy_rules_read(const json_t *configmap, struct aggapi_proxy_rules *ret,
			    struct cairn_err *err)
{
	const json_t *data = kube_at(configmap, "data");
	const char *ca = kube_str(data, "requestheader-client-ca-file");
	int rc;

	*ret = (struct aggapi_proxy_rules){0};
	if (!ca || !strstr(ca, "BEGIN CERTIFICATE"))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the API server names no authority of a front proxy: is its "
				     "aggregation layer on?");
	ret->ca_pem = cairn_strdup(ca);
	rc = ret->ca_pem ? 0 : cairn_err_nomem(err, "authority");
	if (!rc)
		rc = read_list(data, "requestheader-allowed-names", false, &ret->names, err);
	if (!rc)
		rc = read_list(data, "requestheader-username-headers", true, &ret->user_headers,
			       err);
	if (!rc)
		rc = read_list(data, "requestheader-group-headers", true, &ret->group_headers, err);
	if (!rc)
		rc = read_list(data, "requestheader-uid-headers", true, &ret->uid_headers, err);
	if (!rc)
		rc = read_list(data, "requestheader-extra-headers-prefix", true,
			       &ret->extra_prefixes, err);
	if (!rc && json_array_size(ret->user_headers) == 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "the API server names no user header");
	if (rc)
		aggapi_proxy_rules_done(ret);
	return rc;
}

void aggapi_proxy_rules_done(struct aggapi_proxy_rules *rules)
{
	free(rules->ca_pem);
	json_decref(rules->names);
	json_decref(rules->user_headers);
	json_decref(rules->group_headers);
	json_decref(rules->uid_headers);
	json_decref(rules->extra_prefixes);
	*rules = (struct aggapi_proxy_rules){0};
}

static bool in_list(const json_t *list, const char *text)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i,
			   item) if (strcmp(json_string_value(item), text) == 0) return true;
	return false;
}

/* Returns the first value of the first header in the list that is present. */
static const char *proxy_rules_first_of(const json_t *headers, aggapi_field_at fields,
					const void *request)
{
	const char *name, *value;
	const json_t *header;
	size_t i;

	json_array_foreach(headers, i, header)
	{
		for (size_t k = 0; fields(request, k, &name, &value); k++)
			if (*value && strcmp(name, json_string_value(header)) == 0)
				return value;
	}
	return NULL;
}

/* Returns the part after one of the prefixes, or NULL. */
static const char *extra_key(const json_t *prefixes, const char *name)
{
	const json_t *item;
	size_t i;

	json_array_foreach(prefixes, i, item)
	{
		size_t n = json_string_length(item);

		if (n > 0 && strncmp(name, json_string_value(item), n) == 0 && name[n])
			return name + n;
	}
	return NULL;
}

/* Keys are percent-encoded, because header names cannot contain every character. */
static int add_extra(json_t *user, const char *key, const char *value, struct cairn_err *err)
{
	char query[HEADER_NAME_MAX + 2] = "k=", decoded[HEADER_NAME_MAX];
	json_t *extra = json_object_get(user, "extra"), *list;

	if (strlen(key) >= HEADER_NAME_MAX || strchr(key, '&') || strchr(key, '+'))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "an extra header is broken");
	memcpy(query + 2, key, strlen(key) + 1);
	if (!net_http_query_get(query, "k", decoded, sizeof(decoded)))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "an extra header is broken");
	if (!extra) {
		extra = json_object();
		if (json_object_set_new(user, "extra", extra) < 0)
			return cairn_err_nomem(err, "user");
	}
	list = json_object_get(extra, decoded);
	if (!list) {
		list = json_array();
		if (json_object_set_new(extra, decoded, list) < 0)
			return cairn_err_nomem(err, "user");
	}
	return json_array_append_new(list, json_string(value)) < 0 ? cairn_err_nomem(err, "user")
								   : 0;
}

static int add_groups_and_extra(const struct aggapi_proxy_rules *rules, aggapi_field_at fields,
				const void *request, json_t *user, struct cairn_err *err)
{
	json_t *groups = json_object_get(user, "groups");
	const char *name, *value, *key;

	for (size_t i = 0; fields(request, i, &name, &value); i++) {
		int rc = 0;

		if (in_list(rules->group_headers, name)) {
			if (*value && json_array_append_new(groups, json_string(value)) < 0)
				return cairn_err_nomem(err, "user");
		} else {
			key = extra_key(rules->extra_prefixes, name);
			rc = key ? add_extra(user, key, value, err) : 0;
		}
		if (rc)
			return rc;
	}
	return 0;
}

/* Adds system:authenticated, as every server behind the front proxy does. The API server
 * itself requests documents as a user without groups. */
static int add_authenticated(json_t *user, struct cairn_err *err)
{
	json_t *groups = json_object_get(user, "groups");

	if (strcmp(kube_str(user, "username"), "system:anonymous") == 0 ||
	    in_list(groups, "system:authenticated") || in_list(groups, "system:unauthenticated"))
		return 0;
	return json_array_append_new(groups, json_string("system:authenticated")) < 0
		       ? cairn_err_nomem(err, "user")
		       : 0;
}

int aggapi_proxy_user(const struct aggapi_proxy_rules *rules, const char *peer_name,
		      aggapi_field_at fields, const void *request, json_t **ret,
		      struct cairn_err *err)
{
	kube_auto_json json_t *user = NULL;
	const char *name, *uid;
	int rc;

	if (!peer_name)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the peer showed no certificate of the front proxy");
	if (json_array_size(rules->names) > 0 && !in_list(rules->names, peer_name))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the peer's certificate is not a front proxy's");
	name = proxy_rules_first_of(rules->user_headers, fields, request);
	if (!name)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the front proxy sent no user name");
	uid = proxy_rules_first_of(rules->uid_headers, fields, request);
	user = json_pack("{s:s, s:s*, s:[]}", "username", name, "uid", uid, "groups");
	if (!user)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the user's name is not a valid string");
	rc = add_groups_and_extra(rules, fields, request, user, err);
	if (!rc)
		rc = add_authenticated(user, err);
	if (!rc)
		*ret = cairn_take(user);
	return rc;
}
