/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/delta_pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/random.h"
#include "kube/object.h"
#include "older/aggapi/aggapi_fields.h"
#include "older/aggapi/aggapi_status.h"

#define REQUIRED "FieldValueRequired"
#define WRONG    "FieldValueInvalid"

static int delta_pages_check_kind(const json_t *object, struct aggapi_refusal *refusal)
{
	const char *kind = kube_str(object, "kind"), *version = kube_str(object, "apiVersion");

	if (kind && strcmp(kind, AGGAPI_KIND) == 0 && version &&
	    strcmp(version, AGGAPI_GROUP "/" AGGAPI_VERSION) == 0)
		return 0;
	return aggapi_refuse(refusal, 400, "BadRequest",
			     "the object must be a " AGGAPI_KIND " of " AGGAPI_GROUP
			     "/" AGGAPI_VERSION ", not %s of %s",
			     kind ? kind : "nothing", version ? version : "nothing");
}

/* Sets metadata.name, from generateName if that is given, and the namespace. */
static int settle_metadata(json_t *object, const char *ns, struct aggapi_refusal *refusal)
{
	const char *name = kube_str(object, "metadata", "name");
	const char *stem = kube_str(object, "metadata", "generateName");
	const char *given = kube_str(object, "metadata", "namespace");
	char made[AGGAPI_NAME_MAX], digits[11];

	if (given && *given && strcmp(given, ns) != 0)
		return aggapi_refuse(refusal, 400, "BadRequest",
				     "the namespace of the provided object does not match the "
				     "namespace sent on the request");
	if (name && *name) {
		if (!aggapi_name_valid(name))
			return aggapi_refuse_field(refusal, "metadata.name", WRONG,
						   "metadata.name: not a lower-case DNS name");
		snprintf(made, sizeof(made), "%s", name);
	} else if (stem && *stem && strlen(stem) < sizeof(made) - sizeof(digits)) {
		if (cairn_random_hex(digits, 5, NULL) != 0)
			return aggapi_refuse(refusal, 500, "InternalError", "no randomness");
		snprintf(made, sizeof(made), "%s%.5s", stem, digits);
	} else {
		return aggapi_refuse_field(refusal, "metadata.name", REQUIRED,
					   "metadata.name: name or generateName is required");
	}
	if (kube_set(object, NULL, json_string(made), "metadata", "name") < 0 ||
	    kube_set(object, NULL, json_string(ns), "metadata", "namespace") < 0 ||
	    kube_set(object, NULL, json_null(), "metadata", "creationTimestamp") < 0)
		return aggapi_refuse(refusal, 500, "InternalError", "out of memory");
	return 0;
}

static int read_number(const json_t *spec, const char *name, uint64_t *value,
		       struct aggapi_refusal *refusal)
{
	const json_t *field = json_object_get(spec, name);
	char path[64];

	snprintf(path, sizeof(path), "spec.%s", name);
	if (!field || json_is_null(field))
		return 0;
	/* An integer beyond 63 bits arrives as a real; no volume has so many blocks. */
	if (json_is_real(field) && json_real_value(field) >= (double)INT64_MAX &&
	    json_real_value(field) <= (double)UINT64_MAX) {
		*value = INT64_MAX;
		return 0;
	}
	if (!json_is_integer(field) || json_integer_value(field) < 0)
		return aggapi_refuse_field(refusal, path, WRONG,
					   "%s: must be a whole number, 0 or "
					   "more",
					   path);
	*value = (uint64_t)json_integer_value(field);
	return 0;
}

static int read_text(const json_t *spec, const char *name, const char **ret,
		     struct aggapi_refusal *refusal)
{
	const json_t *field = json_object_get(spec, name);
	const char *text = kube_str(spec, name);
	char path[64];

	snprintf(path, sizeof(path), "spec.%s", name);
	*ret = NULL;
	if (!field || json_is_null(field) || (text && !*text))
		return 0;
	if (!text || !aggapi_name_valid(text))
		return aggapi_refuse_field(refusal, path, WRONG, "%s: must be an object's name",
					   path);
	*ret = text;
	return 0;
}

static int delta_pages_read_secret(const json_t *spec, struct aggapi_delta *ret,
				   struct aggapi_refusal *refusal)
{
	const json_t *ref = json_object_get(spec, "volumeSnapshotDeltaSecretRef");

	if (!ref || json_is_null(ref))
		return 0;
	ret->secret = kube_str(ref, "name");
	ret->secret_ns = kube_str(ref, "namespace");
	if (!ret->secret_ns || !*ret->secret_ns)
		ret->secret_ns = ret->ns;
	if (!ret->secret || !*ret->secret || !aggapi_name_valid(ret->secret) ||
	    !aggapi_name_valid(ret->secret_ns))
		return aggapi_refuse_field(refusal, "spec.volumeSnapshotDeltaSecretRef.name", WRONG,
					   "spec.volumeSnapshotDeltaSecretRef.name: must be a "
					   "Secret's name");
	return 0;
}

static int read_spec(struct aggapi_delta *ret, uint64_t limit_max, struct aggapi_refusal *refusal)
{
	const json_t *spec = kube_at(ret->object, "spec");
	const char *mode;
	int rc;

	if (!json_is_object(spec))
		return aggapi_refuse_field(refusal, "spec", REQUIRED, "spec: required");
	rc = read_text(spec, "baseVolumeSnapshotName", &ret->base, refusal);
	if (!rc)
		rc = read_text(spec, "targetVolumeSnapshotName", &ret->target, refusal);
	if (!rc)
		rc = read_number(spec, "limit", &ret->limit, refusal);
	if (!rc)
		rc = read_number(spec, "offset", &ret->offset, refusal);
	if (!rc)
		rc = delta_pages_read_secret(spec, ret, refusal);
	if (rc)
		return rc;
	if (!ret->target)
		return aggapi_refuse_field(refusal, "spec.targetVolumeSnapshotName", REQUIRED,
					   "spec.targetVolumeSnapshotName: required");
	mode = kube_str(spec, "mode");
	if (!json_is_null(json_object_get(spec, "mode")) && json_object_get(spec, "mode") &&
	    (!mode || strcasecmp(mode, "block") != 0))
		return aggapi_refuse_field(refusal, "spec.mode", "FieldValueNotSupported",
					   "spec.mode: only \"block\" is supported");
	ret->asked = ret->limit > 0 ? ret->limit : limit_max;
	ret->limit = ret->asked < limit_max ? ret->asked : limit_max;
	return 0;
}

int aggapi_delta_parse(const char *body, size_t n, const char *ns,
		       enum aggapi_validation validation, uint64_t limit_max,
		       struct aggapi_delta *ret, struct cairn_buf *warnings,
		       struct aggapi_refusal *refusal)
{
	struct cairn_err err = {0};
	int rc;

	*ret = (struct aggapi_delta){.ns = ns};
	rc = kube_json_parse(body, n, &ret->object, &err);
	if (rc == CAIRN_NO_SPACE)
		return aggapi_refuse_err(refusal, &err);
	if (rc)
		return aggapi_refuse(refusal, 400, "BadRequest", "the body is not JSON: %s",
				     err.msg);
	rc = delta_pages_check_kind(ret->object, refusal);
	if (!rc && validation != AGGAPI_IGNORE)
		rc = aggapi_fields_check(ret->object, validation, warnings, refusal);
	if (!rc)
		rc = settle_metadata(ret->object, ns, refusal);
	if (!rc)
		rc = read_spec(ret, limit_max, refusal);
	if (!rc && ret->asked > ret->limit)
		cairn_buf_addf(warnings,
			       "spec.limit: a page of this server has at most %" PRIu64
			       " entries\n",
			       ret->limit);
	if (rc) {
		aggapi_delta_done(ret);
		*ret = (struct aggapi_delta){0};
	}
	return rc;
}

void aggapi_delta_done(struct aggapi_delta *delta)
{
	json_decref(delta->object);
	delta->object = NULL;
}

/* Go's time.Duration.String() for whole seconds: "3h0m0s". */
static void format_ttl(int64_t seconds, char out[48])
{
	int64_t hours = seconds / 3600, minutes = seconds / 60 % 60, rest = seconds % 60;

	if (hours > 0)
		snprintf(out, 48, "%" PRId64 "h%" PRId64 "m%" PRId64 "s", hours, minutes, rest);
	else if (minutes > 0)
		snprintf(out, 48, "%" PRId64 "m%" PRId64 "s", minutes, rest);
	else
		snprintf(out, 48, "%" PRId64 "s", rest);
}

static json_t *entry_of(const json_t *block)
{
	kube_auto_json json_t *entry =
		json_pack("{s:O, s:O}", "offset", json_object_get(block, "offset"),
			  "blockSizeBytes", json_object_get(block, "blockSizeBytes"));
	const json_t *token = json_object_get(block, "token");
	int64_t ttl = 0;
	char text[48];

	if (!entry)
		return NULL;
	if (!token)
		return cairn_take(entry);
	(void)kube_i64(token, &ttl, "ttlSeconds");
	format_ttl(ttl, text);
	if (json_object_set_new(entry, "dataToken",
				json_pack("{s:s, s:s, s:s}", "token", kube_str(token, "token"),
					  "issuanceTime", kube_str(token, "issuanceTime"), "ttl",
					  text)) < 0)
		return NULL;
	return cairn_take(entry);
}

static json_t *delta_pages_status_of(const struct aggapi_delta *delta, const char *state)
{
	kube_auto_json json_t *status =
		json_pack("{s:s, s:I, s:I}", "state", state, "limit", (json_int_t)delta->asked,
			  "offset", (json_int_t)delta->offset);

	if (status && delta->asked > delta->limit &&
	    json_object_set_new(status, "effectiveLimit", json_integer((json_int_t)delta->limit)) <
		    0)
		return NULL;
	return cairn_take(status);
}

/* Where a further request begins: at the driver's token, or behind the last block. */
static int add_continue(json_t *status, const struct aggapi_delta *delta, const json_t *page,
			struct cairn_err *err)
{
	const json_t *blocks = json_object_get(page, "changedBlocks");
	const char *next = kube_str(page, "nextToken");
	uint64_t index = delta->offset;
	int64_t last;

	if (next && *next) {
		if (cairn_parse_u64(next, &index, NULL) != 0 || index > INT64_MAX)
			return cairn_err_set(err, CAIRN_INTERNAL,
					     "the driver's page token is not a block index");
		/* A user that follows it would never come to the end. */
		if (index <= delta->offset)
			return cairn_err_set(err, CAIRN_INTERNAL,
					     "the driver's next page begins at block %" PRIu64
					     ", not behind this one",
					     index);
	} else if (json_array_size(blocks) > 0 &&
		   kube_i64(json_array_get(blocks, json_array_size(blocks) - 1), &last, "offset")) {
		index = (uint64_t)last + 1;
	}
	return json_object_set_new(status, "continue", json_integer((json_int_t)index)) < 0
		       ? cairn_err_nomem(err, "status")
		       : 0;
}

static int add_entries(json_t *status, const json_t *page, struct cairn_err *err)
{
	const json_t *block;
	json_t *list = json_array();
	size_t i;

	if (json_object_set_new(status, "changedBlockDeltas", list) < 0)
		return cairn_err_nomem(err, "status");
	json_array_foreach(json_object_get(page, "changedBlocks"), i,
			   block) if (json_array_append_new(list, entry_of(block)) <
				      0) return cairn_err_nomem(err, "status");
	return 0;
}

int aggapi_delta_complete(struct aggapi_delta *delta, const json_t *page, struct cairn_err *err)
{
	const char *next = kube_str(page, "nextToken");
	kube_auto_json json_t *status =
		delta_pages_status_of(delta, next && *next ? "Continue" : "Completed");
	int64_t size = 0;
	int rc;

	if (!status)
		return cairn_err_nomem(err, "status");
	rc = add_entries(status, page, err);
	if (!rc)
		rc = add_continue(status, delta, page, err);
	if (rc)
		return rc;
	if (kube_i64(page, &size, "volumeSizeBytes") &&
	    json_object_set_new(status, "volumeSizeBytes", json_integer(size)) < 0)
		return cairn_err_nomem(err, "status");
	return json_object_set(delta->object, "status", status) < 0 ? cairn_err_nomem(err, "status")
								    : 0;
}

int aggapi_delta_fail(struct aggapi_delta *delta, const char *message, struct cairn_err *err)
{
	kube_auto_json json_t *status = delta_pages_status_of(delta, "Failed");

	if (!status || json_object_set_new(status, "error", json_string(message)) < 0 ||
	    json_object_set(delta->object, "status", status) < 0)
		return cairn_err_nomem(err, "status");
	return 0;
}
