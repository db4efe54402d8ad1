/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/image_metadata.h"

#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

/* Memory that parsed metadata owns. */
struct owned {
	json_t *json;
	char *kubernetes;
};

static void image_metadata_put_text(json_t *to, const char *key, const char *value)
{
	if (value && *value)
		json_object_set_new(to, key, json_string(value));
}

static void image_metadata_put_number(json_t *to, const char *key, uint64_t value)
{
	json_object_set_new(to, key, json_integer((json_int_t)value));
}

static void image_metadata_put_all(json_t *json, const struct metadata *m)
{
	json_t *chunks = json_object();

	image_metadata_put_number(json, "version", METADATA_VERSION);
	image_metadata_put_text(json, "volume_id", m->volume_id);
	image_metadata_put_text(json, "volume_name", m->volume_name);
	image_metadata_put_text(json, "snapshot_id", m->snapshot_id);
	image_metadata_put_text(json, "snapshot_name", m->snapshot_name);
	image_metadata_put_number(json, "snapshot_time_ns", m->snapshot_time_ns);
	image_metadata_put_number(json, "size", m->size);
	image_metadata_put_number(json, "granularity", m->granularity);
	image_metadata_put_text(json, "mode", m->mode);
	image_metadata_put_text(json, "parent_backup", m->parent_backup);
	image_metadata_put_text(json, "parent_snapshot_id", m->parent_snapshot_id);
	image_metadata_put_number(json, "bytes_changed", m->bytes_changed);
	image_metadata_put_number(chunks, "base", m->chunk_base);
	image_metadata_put_number(chunks, "leaf", m->chunk_leaf);
	image_metadata_put_number(chunks, "merge_hand", m->merge_hand);
	if (m->segment) {
		image_metadata_put_number(json, "segment_size", m->segment);
		image_metadata_put_number(chunks, "count", m->chunk_n);
		image_metadata_put_number(chunks, "bytes", m->data_bytes);
	}
	json_object_set_new(json, "chunks", chunks);
}

int backup_metadata_write(const struct metadata *metadata, char **ret, size_t *ret_n,
			  struct cairn_err *err)
{
	cairn_cleanup(json_decrefp) json_t *json = json_object();
	cairn_auto_free char *text = NULL;
	size_t n;

	if (!json)
		return cairn_err_nomem(err, "metadata");
	image_metadata_put_all(json, metadata);
	if (metadata->kubernetes) {
		json_t *objects = json_loads(metadata->kubernetes, 0, NULL);

		if (!objects)
			return cairn_err_set(err, CAIRN_INVALID, "objects of Kubernetes: no JSON");
		json_object_set_new(json, "kubernetes", objects);
	}
	text = json_dumps(json, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
	if (!text)
		return cairn_err_nomem(err, "metadata");
	n = strlen(text);
	if (n > METADATA_MAX) /* the reader would refuse it */
		return cairn_err_set(err, CAIRN_RANGE,
				     "the metadata, with objects of Kubernetes, has more than %u "
				     "bytes",
				     METADATA_MAX);
	*ret_n = n;
	*ret = cairn_take(text);
	return 0;
}

static const char *get_text(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

static uint64_t image_metadata_get_number(const json_t *json, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(json, key));

	return value > 0 ? (uint64_t)value : 0;
}

static void image_metadata_get_all(const json_t *json, struct metadata *m)
{
	const json_t *chunks = json_object_get(json, "chunks");

	*m = (struct metadata){
		.volume_id = get_text(json, "volume_id"),
		.volume_name = get_text(json, "volume_name"),
		.snapshot_id = get_text(json, "snapshot_id"),
		.snapshot_name = get_text(json, "snapshot_name"),
		.snapshot_time_ns = image_metadata_get_number(json, "snapshot_time_ns"),
		.size = image_metadata_get_number(json, "size"),
		.granularity = image_metadata_get_number(json, "granularity"),
		.mode = get_text(json, "mode"),
		.parent_backup = get_text(json, "parent_backup"),
		.parent_snapshot_id = get_text(json, "parent_snapshot_id"),
		.bytes_changed = image_metadata_get_number(json, "bytes_changed"),
		.chunk_base = image_metadata_get_number(chunks, "base"),
		.chunk_leaf = image_metadata_get_number(chunks, "leaf"),
		.merge_hand = image_metadata_get_number(chunks, "merge_hand"),
		.segment = image_metadata_get_number(json, "segment_size"),
		.chunk_n = image_metadata_get_number(chunks, "count"),
		.data_bytes = image_metadata_get_number(chunks, "bytes"),
	};
}

int backup_metadata_parse(const char *text, size_t n, struct metadata *ret, struct cairn_err *err)
{
	cairn_cleanup(json_decrefp) json_t *json = json_loadb(text, n, 0, NULL);
	struct owned *owned;

	if (!json_is_object(json) || !image_metadata_get_number(json, "version"))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the metadata file is damaged");
	if (image_metadata_get_number(json, "version") > METADATA_VERSION)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the metadata file is of version %" PRIu64
				     ", newer than this program",
				     image_metadata_get_number(json, "version"));
	owned = cairn_calloc(1, sizeof(*owned));
	if (!owned)
		return cairn_err_nomem(err, "metadata");
	image_metadata_get_all(json, ret);
	if (json_object_get(json, "kubernetes"))
		owned->kubernetes = json_dumps(json_object_get(json, "kubernetes"),
					       JSON_COMPACT | JSON_PRESERVE_ORDER);
	ret->kubernetes = owned->kubernetes;
	owned->json = cairn_take(json);
	ret->owned = owned;
	return 0;
}

void backup_metadata_done(struct metadata *metadata)
{
	struct owned *owned = metadata->owned;

	if (owned) {
		json_decref(owned->json);
		free(owned->kubernetes);
		free(owned);
	}
	*metadata = (struct metadata){0};
}
