/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/query.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "net/http/http_head.h"

#define DIRECT_PREFIX    "/namespaces/"
#define DIRECT_SUFFIX    "/diff"
#define PARAMETER_PREFIX "parameters."

/* A Kubernetes name: lower-case letters, digits, dashes and dots, with a letter or digit
 * at both ends. */
static bool query_is_name(const char *text, size_t n)
{
	if (n == 0 || n > DIFFSNAP_NAME_MAX || !isalnum((unsigned char)text[0]) ||
	    !isalnum((unsigned char)text[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
		    text[i] != '-' && text[i] != '.')
			return false;
	return true;
}

static int take_name(const char *text, size_t n, const char *what, char out[DIFFSNAP_NAME_MAX + 1],
		     struct cairn_err *err)
{
	if (!query_is_name(text, n))
		return cairn_err_set(err, CAIRN_INVALID, "the %s is no name of Kubernetes", what);
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

static bool is_given(const char *query, const char *name)
{
	size_t n = strlen(name);

	while (*query) {
		if (strcspn(query, "=&") == n && memcmp(query, name, n) == 0)
			return true;
		query += strcspn(query, "&");
		query += *query == '&';
	}
	return false;
}

/* "" if it is absent; CAIRN_INVALID if it is malformed or does not fit. */
static int query_take_text(const char *query, const char *name, char *out, size_t cap,
			   struct cairn_err *err)
{
	if (net_http_query_get(query, name, out, cap))
		return 0;
	out[0] = '\0';
	return is_given(query, name)
		       ? cairn_err_set(err, CAIRN_INVALID, "%s is too long or broken", name)
		       : 0;
}

static int parse_name_path(const char *path, struct diffsnap_query *ret, struct cairn_err *err)
{
	const char *slash = path[0] == '/' ? strchr(path + 1, '/') : NULL;
	int rc;

	if (!slash || strchr(slash + 1, '/'))
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "nothing is served here; try /NAMESPACE/NAME");
	rc = take_name(path + 1, (size_t)(slash - path - 1), "namespace", ret->ns, err);
	return rc ? rc : take_name(slash + 1, strlen(slash + 1), "name", ret->name, err);
}

static int parse_direct(const char *ns, size_t n, const char *query, struct diffsnap_query *ret,
			struct cairn_err *err)
{
	char name[DIFFSNAP_NAME_MAX + 1];
	int rc = take_name(ns, n, "namespace", ret->ns, err);

	ret->direct = true;
	if (!rc)
		rc = query_take_text(query, "target", name, sizeof(name), err);
	if (!rc && !name[0])
		rc = cairn_err_set(err, CAIRN_INVALID, "target is missing");
	if (!rc)
		rc = take_name(name, strlen(name), "target", ret->target, err);
	if (!rc)
		rc = query_take_text(query, "base", name, sizeof(name), err);
	if (!rc && name[0])
		rc = take_name(name, strlen(name), "base", ret->base, err);
	if (!rc)
		rc = query_take_text(query, "volumeId", ret->volume_id, sizeof(ret->volume_id),
				     err);
	if (!rc)
		rc = query_take_text(query, "mode", ret->mode, sizeof(ret->mode), err);
	return rc;
}

/* The key is not percent-decoded: only letters, digits and "._/-" are allowed. */
static int take_parameter(const char *query, const char *item, size_t n, struct diffsnap_query *ret,
			  struct cairn_err *err)
{
	struct diffsnap_parameter *parameter = &ret->parameters[ret->n_parameters];
	char name[DIFFSNAP_TEXT_MAX + 1];
	size_t prefix = strlen(PARAMETER_PREFIX);

	if (n > DIFFSNAP_TEXT_MAX || n == prefix)
		return cairn_err_set(err, CAIRN_INVALID,
				     "a parameter's name is missing or too long");
	if (ret->n_parameters == DIFFSNAP_PARAMETERS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "more than %u parameters",
				     DIFFSNAP_PARAMETERS_MAX);
	memcpy(name, item, n);
	name[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._/-", name[i]))
			return cairn_err_set(err, CAIRN_INVALID,
					     "a parameter's name has other than letters, digits "
					     "and '._/-'");
	if (!net_http_query_get(query, name, parameter->value, sizeof(parameter->value)))
		return cairn_err_set(err, CAIRN_INVALID, "a parameter is too long or broken");
	snprintf(parameter->key, sizeof(parameter->key), "%s", name + prefix);
	for (size_t i = 0; i < ret->n_parameters; i++)
		if (strcmp(ret->parameters[i].key, parameter->key) == 0)
			return cairn_err_set(err, CAIRN_INVALID, "a parameter is given twice");
	ret->n_parameters++;
	return 0;
}

static int take_parameters(const char *query, struct diffsnap_query *ret, struct cairn_err *err)
{
	size_t prefix = strlen(PARAMETER_PREFIX);
	int rc = 0;

	for (const char *item = query; item && !rc; item = strchr(item, '&')) {
		item += item[0] == '&';
		if (strncmp(item, PARAMETER_PREFIX, prefix) == 0)
			rc = take_parameter(query, item, strcspn(item, "=&"), ret, err);
	}
	return rc;
}

static int take_page(const char *query, struct diffsnap_query *ret, struct cairn_err *err)
{
	char number[DIFFSNAP_TEXT_MAX + 1];
	int rc = query_take_text(query, "startOffset", ret->start_offset, sizeof(ret->start_offset),
				 err);

	ret->has_start = ret->start_offset[0] != '\0';
	if (!rc)
		rc = query_take_text(query, "maxEntries", number, sizeof(number), err);
	if (!rc && number[0] && cairn_parse_u64(number, &ret->max_entries, NULL) != 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "maxEntries is not a number");
	return rc;
}

int diffsnap_query_parse(const char *path, const char *query, struct diffsnap_query *ret,
			 struct cairn_err *err)
{
	size_t n = strlen(path);
	size_t around = strlen(DIRECT_PREFIX) + strlen(DIRECT_SUFFIX);
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (n > around && strncmp(path, DIRECT_PREFIX, strlen(DIRECT_PREFIX)) == 0 &&
	    strcmp(path + n - strlen(DIRECT_SUFFIX), DIRECT_SUFFIX) == 0)
		rc = parse_direct(path + strlen(DIRECT_PREFIX), n - around, query, ret, err);
	else
		rc = parse_name_path(path, ret, err);
	if (!rc && ret->direct)
		rc = take_parameters(query, ret, err);
	return rc ? rc : take_page(query, ret, err);
}
