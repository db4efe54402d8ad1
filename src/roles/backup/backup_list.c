/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <stdio.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/select.h"
#include "backup/tags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "repo/repo_snapshot.h"
#include "roles/backup/backup_image.h"

static const struct cmd_column columns[] = {
	{.title = "ID"},
	{.title = "TIME"},
	{.title = "SNAPSHOT"},
	{.title = "MODE", .spare = 3},
	{.title = "SIZE", .right = true},
	{.title = "READ", .right = true, .spare = 2},
	{.title = "STORED", .right = true},
	{.title = "PARENT", .spare = 1},
	{.title = "TAGS", .spare = 4},
};

/* True for "backup-20260102T030405Z-1a2b", the snapshot that `create VOLUME` cuts and deletes. */
static bool is_cut_for_backup(const char *snapshot)
{
	static const char form[] = "backup-00000000T000000Z-";
	size_t n = sizeof(form) - 1;

	if (strlen(snapshot) != n + 4)
		return false;
	for (size_t i = 0; i < n; i++)
		if (form[i] == '0' ? snapshot[i] < '0' || snapshot[i] > '9'
				   : snapshot[i] != form[i])
			return false;
	return true;
}

/* "data@s1", or the path for backups by other programs. The name of a snapshot that existed only
 * for the backup repeats its time, and would not fit on a line. */
static const char *backup_list_subject(const struct backup_record *record, char *out, size_t n)
{
	if (!record->ours)
		return record->path;
	if (backup_record_is_file(record) || is_cut_for_backup(record->snapshot))
		return record->volume;
	snprintf(out, n, "%s@%s", record->volume, record->snapshot);
	return out;
}

static int backup_list_add_row(struct cmd_listing *listing, const struct repo_snapshot *snapshot,
			       const struct backup_record *record, struct cairn_err *err)
{
	char id[ROLE_SHORT_MAX];
	char parent[ROLE_SHORT_MAX];
	char time[CMD_TIME_TEXT_MAX];
	char size[CAIRN_SIZE_TEXT_MAX];
	char read[CAIRN_SIZE_TEXT_MAX];
	char stored[CAIRN_SIZE_TEXT_MAX];
	char text[CMD_SNAPSHOT_TEXT_MAX];
	cairn_auto_free char *tags = backup_tag_list_text(snapshot);
	bool known = snapshot->summary.given;
	const char *cells[] = {
		role_short_id(&snapshot->id, id),
		cmd_time_text((uint64_t)snapshot->time_ns, time),
		backup_list_subject(record, text, sizeof(text)),
		record->ours ? record->mode : "-",
		known ? cairn_format_size(record->size, size) : "-",
		record->ours ? cairn_format_size(record->bytes_read, read) : "-",
		known ? cairn_format_size(record->bytes_stored, stored) : "-",
		snapshot->has_parent ? role_short_id(&snapshot->parent, parent) : "-",
		tags && *tags ? tags : "-",
	};

	return cmd_table_add(&listing->table, cells, err);
}

static void backup_list_put_text(struct cairn_json *json, const char *key, const char *value)
{
	cmd_json_field_string(json, key, *value ? value : NULL);
}

static void put_tags(struct cairn_json *json, const struct repo_snapshot *snapshot)
{
	cairn_json_key(json, "tags");
	cairn_json_array_begin(json);
	for (size_t i = 0; i < snapshot->n_tags; i++)
		if (!backup_tag_is_own(snapshot->tags[i], strlen(snapshot->tags[i])))
			cairn_json_string(json, snapshot->tags[i]);
	cairn_json_array_end(json);
}

static void put_fields(struct cairn_json *json, const struct repo_snapshot *snapshot,
		       const struct backup_record *record)
{
	char id[REPO_ID_TEXT_MAX];

	cmd_json_field_string(json, "id", repo_id_format(&snapshot->id, id));
	cmd_json_field_time(json, "time", (uint64_t)snapshot->time_ns);
	backup_list_put_text(json, "volume", record->volume);
	backup_list_put_text(json, "volume_id", record->volume_id);
	backup_list_put_text(json, "pool_id", record->pool_id);
	backup_list_put_text(json, "snapshot", record->snapshot);
	backup_list_put_text(json, "snapshot_id", record->snapshot_id);
	cmd_json_field_string(json, "parent",
			      snapshot->has_parent ? repo_id_format(&snapshot->parent, id) : NULL);
	backup_list_put_text(json, "mode", record->mode);
	backup_list_put_text(json, "path", record->path);
	cmd_json_field_string(json, "host", snapshot->hostname);
	cmd_json_field_u64(json, "size_bytes", record->size);
	cmd_json_field_u64(json, "bytes_read", record->bytes_read);
	cmd_json_field_u64(json, "bytes_stored", record->bytes_stored);
}

static int backup_list_add(struct cmd_listing *listing, const struct repo_snapshot *snapshot,
			   const struct backup_record *record, struct cairn_err *err)
{
	if (!role_json())
		return backup_list_add_row(listing, snapshot, record, err);
	cairn_json_object_begin(&listing->json);
	put_fields(&listing->json, snapshot, record);
	put_tags(&listing->json, snapshot);
	cairn_json_object_end(&listing->json);
	if (cmd_options.output == CMD_OUTPUT_NDJSON)
		cairn_json_newline(&listing->json);
	return 0;
}

static bool backup_list_wanted(const struct repo_snapshot *snapshot,
			       const struct backup_record *record,
			       const struct cmd_backup_list *options)
{
	const char *volume = options->volume;

	return (!volume || strcmp(record->volume, volume) == 0 ||
		strcmp(record->volume_id, volume) == 0) &&
	       (!options->pool_id || backup_record_is_of_pool(record, options->pool_id)) &&
	       backup_tag_list_match(snapshot, &options->tags);
}

/* The last column is shown only if a backup has a tag. */
static size_t count_columns(const struct repo_snapshot_list *list)
{
	size_t n = sizeof(columns) / sizeof(columns[0]);

	for (size_t i = 0; i < list->n; i++) {
		cairn_auto_free char *tags = backup_tag_list_text(list->items[i]);

		if (tags && *tags)
			return n;
	}
	return n - 1;
}

int role_backup_list(const struct cmd_backup_list *options, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	struct role_open how = {.lock = REPO_LOCK_NONE};
	struct cmd_listing listing;
	int rc = role_repo_open(options->repository, &how, &repo, err);
	int rc_end;

	if (!rc)
		rc = repo_snapshot_list(repo, &list, err);
	if (rc)
		return rc;
	cmd_listing_begin(&listing, "backups", columns, count_columns(&list));
	for (size_t i = 0; i < list.n && !rc; i++) {
		struct backup_record record = backup_record_of(list.items[i]);

		if (backup_list_wanted(list.items[i], &record, options))
			rc = backup_list_add(&listing, list.items[i], &record, err);
	}
	rc_end = cmd_listing_end(&listing, rc ? NULL : err);
	if (!rc && !rc_end && list.damaged)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "%zu backups cannot be read: %s",
				     list.damaged, list.damaged_text);
	return rc ? rc : rc_end;
}

static void describe_text(const struct repo_snapshot *snapshot, const struct backup_record *record,
			  const struct image *image)
{
	char id[REPO_ID_TEXT_MAX];
	char time[CMD_TIME_TEXT_MAX];
	char size[CAIRN_SIZE_TEXT_MAX];
	char leaf[CAIRN_SIZE_TEXT_MAX];
	const struct metadata *m = &image->metadata;
	cairn_auto_free char *tags = backup_tag_list_text(snapshot);
	uint64_t zeros = 0;
	uint64_t chunks = 0;

	cmd_out_fact("id", "%s", repo_id_format(&snapshot->id, id));
	cmd_out_fact("time", "%s", cmd_time_text((uint64_t)snapshot->time_ns, time));
	cmd_out_fact("host", "%s", snapshot->hostname ? snapshot->hostname : "-");
	cmd_out_fact("path", "%s", record->path);
	if (tags && *tags)
		cmd_out_fact("tags", "%s", tags);
	if (snapshot->has_parent)
		cmd_out_fact("parent", "%s", repo_id_format(&snapshot->parent, id));
	if (!record->ours)
		return;
	for (size_t i = 0; i < image->map.n; i++) {
		zeros += image->map.at[i].kind == CHUNK_ZERO ? image->map.at[i].length : 0;
		chunks += image->map.at[i].kind != CHUNK_ZERO;
	}
	cmd_out_fact("volume", "%s (%s)", record->volume, record->volume_id);
	if (*record->pool_id)
		cmd_out_fact("pool", "%s (%s)", record->pool_id, record->pool_dir);
	cmd_out_fact("snapshot", "%s (%s)", record->snapshot, record->snapshot_id);
	cmd_out_fact("cut", "%s", cmd_time_text(m->snapshot_time_ns, time));
	cmd_out_fact("size", "%s", cairn_format_size(image->size, size));
	cmd_out_fact("data", "%s", cairn_format_size(image->size - zeros, size));
	cmd_out_fact("mode", "%s", record->mode);
	if (m->parent_snapshot_id)
		cmd_out_fact("changed since", "%s", m->parent_snapshot_id);
	cmd_out_fact("changed", "%s", cairn_format_size(m->bytes_changed, size));
	cmd_out_fact("read", "%s", cairn_format_size(record->bytes_read, size));
	cmd_out_fact("stored", "%s",
		     snapshot->summary.given ? cairn_format_size(record->bytes_stored, size) : "-");
	cmd_out_fact("chunks", "%llu of %s at first, %s where written", (unsigned long long)chunks,
		     cairn_format_size(m->chunk_base, size),
		     cairn_format_size(m->chunk_leaf, leaf));
}

static int describe_json(const struct repo_snapshot *snapshot, const struct backup_record *record,
			 const struct image *image, struct cairn_err *err)
{
	const struct metadata *m = &image->metadata;
	struct cairn_json json;

	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	put_fields(&json, snapshot, record);
	cmd_json_field_time(&json, "snapshot_time", m->snapshot_time_ns);
	cmd_json_field_u64(&json, "granularity_bytes", m->granularity);
	cmd_json_field_u64(&json, "bytes_changed", m->bytes_changed);
	cmd_json_field_string(&json, "parent_snapshot_id", m->parent_snapshot_id);
	cmd_json_field_u64(&json, "chunks", image->map.n);
	cmd_json_field_u64(&json, "chunk_base_bytes", m->chunk_base);
	cmd_json_field_u64(&json, "chunk_leaf_bytes", m->chunk_leaf);
	cairn_json_key(&json, "tags");
	cairn_json_array_begin(&json);
	for (size_t i = 0; i < snapshot->n_tags; i++)
		cairn_json_string(&json, snapshot->tags[i]);
	cairn_json_array_end(&json);
	if (m->kubernetes) {
		cairn_json_key(&json, "kubernetes");
		cairn_json_value(&json, m->kubernetes);
	}
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

int role_backup_describe(const struct cmd_backup_describe *options, struct cairn_err *err)
{
	cairn_cleanup(role_backup_image_done) struct role_backup_image i = {0};
	struct role_open how = {.lock = REPO_LOCK_NONE};
	struct backup_record record;
	struct backup_choice choice = {.name = options->id,
				       .volume = options->volume,
				       .host = options->host,
				       .pool = options->pool_id};
	int rc = role_backup_image_find(&i, options->repository, &how, &choice, err);

	if (rc)
		return rc;
	record = backup_record_of(i.snapshot);
	if (record.ours)
		rc = role_backup_image_load(&i, NULL, err);
	if (rc)
		return rc;
	if (role_json())
		return describe_json(i.snapshot, &record, &i.image, err);
	describe_text(i.snapshot, &record, &i.image);
	return 0;
}
