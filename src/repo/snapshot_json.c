/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/snapshot_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/instant.h"
#include "repo/repo_json.h"
#include "repo/repo_snapshot.h"

/* ---- writing ---------------------------------------------------------------- */

static void add_strings(struct cairn_buf *out, const char *name, const char **items, size_t n)
{
	cairn_buf_addf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			cairn_buf_addc(out, ',');
		repo_json_string(out, items[i]);
	}
	cairn_buf_addc(out, ']');
}

static void snapshot_json_add_string(struct cairn_buf *out, const char *name, const char *value)
{
	cairn_buf_addf(out, ",\"%s\":", name);
	repo_json_string(out, value);
}

static void add_id(struct cairn_buf *out, const char *name, const struct repo_id *id)
{
	char hex[REPO_ID_TEXT_MAX];

	cairn_buf_addf(out, ",\"%s\":\"%s\"", name, repo_id_format(id, hex));
}

/* The numbers of a summary, for writing and reading. */
static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{"files_new", offsetof(struct repo_summary, files_new)},
	{"files_changed", offsetof(struct repo_summary, files_changed)},
	{"files_unmodified", offsetof(struct repo_summary, files_unmodified)},
	{"dirs_new", offsetof(struct repo_summary, dirs_new)},
	{"dirs_changed", offsetof(struct repo_summary, dirs_changed)},
	{"dirs_unmodified", offsetof(struct repo_summary, dirs_unmodified)},
	{"data_blobs", offsetof(struct repo_summary, data_blobs)},
	{"tree_blobs", offsetof(struct repo_summary, tree_blobs)},
	{"data_added", offsetof(struct repo_summary, data_added)},
	{"data_added_packed", offsetof(struct repo_summary, data_added_packed)},
	{"total_files_processed", offsetof(struct repo_summary, total_files_processed)},
	{"total_bytes_processed", offsetof(struct repo_summary, total_bytes_processed)},
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static void add_summary(struct cairn_buf *out, const struct repo_summary *summary)
{
	char start[REPO_INSTANT_TEXT_MAX], end[REPO_INSTANT_TEXT_MAX];

	cairn_buf_addf(out, ",\"summary\":{\"backup_start\":\"%s\",\"backup_end\":\"%s\"",
		       repo_instant_format(summary->backup_start_ns, start),
		       repo_instant_format(summary->backup_end_ns, end));
	for (size_t i = 0; i < NUMBERS; i++) {
		uint64_t value;

		memcpy(&value, (const char *)summary + numbers[i].offset, sizeof(value));
		cairn_buf_addf(out, ",\"%s\":%" PRIu64, numbers[i].name, value);
	}
	cairn_buf_addc(out, '}');
}

void repo_snapshot_encode(const struct repo_snapshot *snapshot, const char *hostname,
			  struct cairn_buf *out)
{
	char time[REPO_INSTANT_TEXT_MAX];

	cairn_buf_addf(out, "{\"time\":\"%s\"", repo_instant_format(snapshot->time_ns, time));
	if (snapshot->has_parent)
		add_id(out, "parent", &snapshot->parent);
	add_id(out, "tree", &snapshot->tree);
	add_strings(out, "paths", snapshot->paths, snapshot->n_paths);
	snapshot_json_add_string(out, "hostname",
				 snapshot->hostname ? snapshot->hostname : hostname);
	if (snapshot->username)
		snapshot_json_add_string(out, "username", snapshot->username);
	if (snapshot->uid)
		cairn_buf_addf(out, ",\"uid\":%u", snapshot->uid);
	if (snapshot->gid)
		cairn_buf_addf(out, ",\"gid\":%u", snapshot->gid);
	if (snapshot->n_tags > 0)
		add_strings(out, "tags", snapshot->tags, snapshot->n_tags);
	if (snapshot->has_original)
		add_id(out, "original", &snapshot->original);
	if (snapshot->program_version)
		snapshot_json_add_string(out, "program_version", snapshot->program_version);
	if (snapshot->summary.given)
		add_summary(out, &snapshot->summary);
	cairn_buf_addc(out, '}');
}

/* ---- reading ---------------------------------------------------------------- */

static bool snapshot_json_get_id(const json_t *root, const char *name, bool *ret_there,
				 struct repo_id *ret)
{
	const json_t *value = json_object_get(root, name);

	*ret_there = value && !json_is_null(value);
	return !*ret_there ||
	       (json_is_string(value) &&
		repo_id_parse(json_string_value(value), json_string_length(value), ret));
}

static bool get_time(const json_t *root, const char *name, int64_t *ret)
{
	const json_t *value = json_object_get(root, name);

	return !value ||
	       (json_is_string(value) &&
		repo_instant_parse(json_string_value(value), json_string_length(value), ret));
}

/* The strings stay in the JSON; only the list is allocated. */
static bool get_strings(const json_t *root, const char *name, const char ***ret, size_t *ret_n)
{
	const json_t *list = json_object_get(root, name);
	size_t n = json_array_size(list);

	if (!list || json_is_null(list))
		return true;
	if (!json_is_array(list) || n > REPO_SNAPSHOT_STRINGS_MAX)
		return false;
	*ret = cairn_calloc(n, sizeof(**ret));
	if (!*ret)
		return false;
	for (size_t i = 0; i < n; i++) {
		(*ret)[i] = json_string_value(json_array_get(list, i));
		if (!(*ret)[i])
			return false;
	}
	*ret_n = n;
	return true;
}

static uint32_t snapshot_json_get_u32(const json_t *root, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(root, name));

	return value > 0 && value <= UINT32_MAX ? (uint32_t)value : 0;
}

static bool get_summary(const json_t *root, struct repo_summary *ret)
{
	const json_t *summary = json_object_get(root, "summary");

	if (!json_is_object(summary))
		return true;
	ret->given = true;
	for (size_t i = 0; i < NUMBERS; i++) {
		json_int_t number = json_integer_value(json_object_get(summary, numbers[i].name));
		uint64_t value = number > 0 ? (uint64_t)number : 0;

		memcpy((char *)ret + numbers[i].offset, &value, sizeof(value));
	}
	return get_time(summary, "backup_start", &ret->backup_start_ns) &&
	       get_time(summary, "backup_end", &ret->backup_end_ns);
}

static bool snapshot_json_get_all(const json_t *root, struct repo_snapshot *ret)
{
	bool has_tree;

	ret->hostname = json_string_value(json_object_get(root, "hostname"));
	ret->username = json_string_value(json_object_get(root, "username"));
	ret->program_version = json_string_value(json_object_get(root, "program_version"));
	ret->uid = snapshot_json_get_u32(root, "uid");
	ret->gid = snapshot_json_get_u32(root, "gid");
	return snapshot_json_get_id(root, "tree", &has_tree, &ret->tree) && has_tree &&
	       snapshot_json_get_id(root, "parent", &ret->has_parent, &ret->parent) &&
	       snapshot_json_get_id(root, "original", &ret->has_original, &ret->original) &&
	       get_time(root, "time", &ret->time_ns) &&
	       get_strings(root, "paths", &ret->paths, &ret->n_paths) &&
	       get_strings(root, "tags", &ret->tags, &ret->n_tags) &&
	       get_summary(root, &ret->summary);
}

void repo_snapshot_free(struct repo_snapshot *snapshot)
{
	if (!snapshot)
		return;
	json_decref(snapshot->owned);
	free(snapshot->paths);
	free(snapshot->tags);
	free(snapshot);
}

int repo_snapshot_decode(const char *json, size_t n, struct repo_snapshot **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot =
		cairn_calloc(1, sizeof(*snapshot));

	if (!snapshot)
		return cairn_err_nomem(err, "a snapshot");
	snapshot->owned = json_loadb(json, n, 0, NULL);
	if (!json_is_object((json_t *)snapshot->owned) ||
	    !snapshot_json_get_all(snapshot->owned, snapshot))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "not a snapshot");
	*ret = cairn_take(snapshot);
	return 0;
}
