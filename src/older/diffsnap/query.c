/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/query.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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
		return cairn_err_set(err, CAIRN_INVALID, "the %s is not a name of Kubernetes",
				     what);
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

/* What a parameter of the query sets. */
enum field {
	FIELD_START,
	FIELD_MAX_ENTRIES,
	FIELD_NAMES,
	FIELD_BASE,
	FIELD_TARGET,
	FIELD_VOLUME_ID,
	FIELD_MODE,
	N_FIELDS,
	FIELD_PARAMETER,
	FIELD_UNKNOWN,
};

/* The proposal names the fields of its objects and of the driver's messages; a client may
 * use either, in any case. */
static const struct {
	const char *name;
	enum field field;
	bool direct; /* only without an object, which says the same */
} fields[] = {
	{"startOffset", FIELD_START, false},
	{"nextOffset", FIELD_START, false},
	{"maxEntries", FIELD_MAX_ENTRIES, false},
	{"fieldNames", FIELD_NAMES, false},
	{"base", FIELD_BASE, true},
	{"baseVolumeSnapshotName", FIELD_BASE, true},
	{"target", FIELD_TARGET, true},
	{"targetVolumeSnapshotName", FIELD_TARGET, true},
	{"volumeId", FIELD_VOLUME_ID, true},
	{"mode", FIELD_MODE, true},
};

static enum field field_of(const char *name, bool direct)
{
	if (direct && strncasecmp(name, PARAMETER_PREFIX, strlen(PARAMETER_PREFIX)) == 0)
		return FIELD_PARAMETER;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strcasecmp(name, fields[i].name) == 0 && (direct || !fields[i].direct))
			return fields[i].field;
	return FIELD_UNKNOWN;
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

/* The key is not percent-decoded: only letters, digits and "._/-" are allowed. */
static int take_parameter(const char *item, const char *name, struct diffsnap_query *ret,
			  struct cairn_err *err)
{
	struct diffsnap_parameter *parameter = &ret->parameters[ret->n_parameters];
	size_t prefix = strlen(PARAMETER_PREFIX);

	if (!name[prefix])
		return cairn_err_set(err, CAIRN_INVALID, "a parameter's name is missing");
	if (ret->n_parameters == DIFFSNAP_PARAMETERS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "more than %u parameters",
				     DIFFSNAP_PARAMETERS_MAX);
	for (size_t i = 0; name[i]; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._/-", name[i]))
			return cairn_err_set(err, CAIRN_INVALID,
					     "a parameter's name has other than letters, digits "
					     "and '._/-'");
	if (!net_http_query_get(item, name, parameter->value, sizeof(parameter->value)))
		return cairn_err_set(err, CAIRN_INVALID, "%.64s is too long or broken", name);
	snprintf(parameter->key, sizeof(parameter->key), "%s", name + prefix);
	for (size_t i = 0; i < ret->n_parameters; i++)
		if (strcmp(ret->parameters[i].key, parameter->key) == 0)
			return cairn_err_set(err, CAIRN_INVALID, "%.64s is given twice", name);
	ret->n_parameters++;
	return 0;
}

static int take_text(const char *value, const char *what, char out[DIFFSNAP_TEXT_MAX + 1],
		     struct cairn_err *err)
{
	size_t n = strlen(value);

	if (n > DIFFSNAP_TEXT_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "%s is too long or broken", what);
	memcpy(out, value, n + 1);
	return 0;
}

static int query_take_field(enum field field, const char *name, const char *value,
			    struct diffsnap_query *ret, struct cairn_err *err)
{
	switch (field) {
	case FIELD_START:
		ret->has_start = true;
		return take_text(value, name, ret->start_offset, err);
	case FIELD_MAX_ENTRIES:
		if (cairn_parse_u64(value, &ret->max_entries, NULL) != 0)
			return cairn_err_set(err, CAIRN_INVALID, "%s is not a number", name);
		return 0;
	case FIELD_NAMES:
		ret->camel_case = strcmp(value, "camelCase") == 0;
		if (!ret->camel_case && strcmp(value, "proposal") != 0)
			return cairn_err_set(err, CAIRN_INVALID, "%s is 'proposal' or 'camelCase'",
					     name);
		return 0;
	case FIELD_BASE:
		return take_name(value, strlen(value), name, ret->base, err);
	case FIELD_TARGET:
		return take_name(value, strlen(value), name, ret->target, err);
	case FIELD_VOLUME_ID:
		return take_text(value, name, ret->volume_id, err);
	case FIELD_MODE:
		return take_text(value, name, ret->mode, err);
	case N_FIELDS:
	case FIELD_PARAMETER:
	case FIELD_UNKNOWN:
		break;
	}
	return cairn_err_set(err, CAIRN_INVALID, "there is no query parameter '%.64s' here", name);
}

/* A client that sends the null of the last page as an empty offset would read the first page
 * again, and one whose base is an empty variable would take all blocks for the changed ones. */
static int query_refuse_empty(enum field field, const char *name, struct cairn_err *err)
{
	if (field == FIELD_START)
		return cairn_err_set(err, CAIRN_INVALID,
				     "%s is empty: there is no page after the last; leave it out "
				     "to begin with the first",
				     name);
	return cairn_err_set(err, CAIRN_INVALID, "%s is empty; leave it out", name);
}

/* `seen` has a bit for each field that was given. */
static int query_take_item(const char *item, size_t name_len, unsigned *seen,
			   struct diffsnap_query *ret, struct cairn_err *err)
{
	char value[DIFFSNAP_VALUE_MAX + 1] = "";
	char name[DIFFSNAP_TEXT_MAX + 1];
	enum field field;

	if (name_len > DIFFSNAP_TEXT_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "there is no query parameter '%.64s...' here", item);
	memcpy(name, item, name_len);
	name[name_len] = '\0';
	field = field_of(name, ret->direct);
	if (field == FIELD_PARAMETER)
		return take_parameter(item, name, ret, err);
	if (field < N_FIELDS && (*seen & 1U << field))
		return cairn_err_set(err, CAIRN_INVALID, "%s is given twice", name);
	if (field < N_FIELDS) {
		*seen |= 1U << field;
		if (!net_http_query_get(item, name, value, sizeof(value)))
			return cairn_err_set(err, CAIRN_INVALID, "%s is too long or broken", name);
		if (!value[0])
			return query_refuse_empty(field, name, err);
	}
	return query_take_field(field, name, value, ret, err);
}

static int take_query(const char *query, struct diffsnap_query *ret, struct cairn_err *err)
{
	unsigned seen = 0;
	int rc = 0;

	while (*query && !rc) {
		size_t n = strcspn(query, "&");

		if (n > 0)
			rc = query_take_item(query, strcspn(query, "=&"), &seen, ret, err);
		query += n + (query[n] == '&');
	}
	return rc;
}

int diffsnap_query_parse(const char *path, const char *query, struct diffsnap_query *ret,
			 struct cairn_err *err)
{
	size_t n = strlen(path);
	size_t around = strlen(DIRECT_PREFIX) + strlen(DIRECT_SUFFIX);
	int rc;

	memset(ret, 0, sizeof(*ret));
	ret->direct = n > around && strncmp(path, DIRECT_PREFIX, strlen(DIRECT_PREFIX)) == 0 &&
		      strcmp(path + n - strlen(DIRECT_SUFFIX), DIRECT_SUFFIX) == 0;
	if (ret->direct)
		rc = take_name(path + strlen(DIRECT_PREFIX), n - around, "namespace", ret->ns, err);
	else
		rc = parse_name_path(path, ret, err);
	if (!rc)
		rc = take_query(query, ret, err);
	if (!rc && ret->direct && !ret->target[0])
		rc = cairn_err_set(err, CAIRN_INVALID, "target is missing");
	return rc;
}
