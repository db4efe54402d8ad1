/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/backup_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "repo/repo_snapshot.h"

#define TAG_OURS       "cairn"
#define NAME_MAX_BYTES 4096

static const char *const mode_names[BACKUP_MODES] = {"changed", "allocated", "full"};

const char *backup_mode_name(enum backup_mode mode)
{
	return mode_names[mode];
}

/* The value of tag "name=value", or NULL. */
static const char *backup_record_value_of(const char *tag, const char *name)
{
	size_t n = strlen(name);

	return strncmp(tag, name, n) == 0 && tag[n] == '=' ? tag + n + 1 : NULL;
}

struct backup_record backup_record_of(const struct repo_snapshot *snapshot)
{
	const char *read = "";
	struct backup_record record = {
		.path = snapshot->n_paths > 0 ? snapshot->paths[0] : "",
		.size = snapshot->summary.total_bytes_processed,
		.bytes_stored = snapshot->summary.data_added_packed,
	};
	struct {
		const char *name;
		const char **value;
	} known[] = {
		{"volume", &record.volume},     {"volume-id", &record.volume_id},
		{"snapshot", &record.snapshot}, {"snapshot-id", &record.snapshot_id},
		{"mode", &record.mode},         {"read", &read},
		{"pool-id", &record.pool_id},   {"pool", &record.pool_dir},
	};

	record.volume = record.volume_id = record.snapshot = record.snapshot_id = record.mode = "";
	record.pool_id = record.pool_dir = "";
	for (size_t i = 0; i < snapshot->n_tags; i++) {
		record.ours |= strcmp(snapshot->tags[i], TAG_OURS) == 0;
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
			const char *value =
				backup_record_value_of(snapshot->tags[i], known[k].name);

			if (value)
				*known[k].value = value;
		}
	}
	if (cairn_parse_u64(read, &record.bytes_read, NULL))
		record.bytes_read = 0;
	return record;
}

bool backup_record_is_file(const struct backup_record *record)
{
	size_t id = strlen(record->volume_id), name = strlen(record->volume);

	return name > 0 && id > name + 1 && record->volume_id[id - name - 1] == ':' &&
	       strcmp(record->volume_id + id - name, record->volume) == 0;
}

bool backup_record_is_of_pool(const struct backup_record *record, const char *pool)
{
	if (*pool == '/')
		return strcmp(record->pool_dir, pool) == 0;
	return *pool && strncmp(record->pool_id, pool, strlen(pool)) == 0;
}

bool backup_tag_is_own(const char *tag, size_t n)
{
	static const char *const names[] = {"volume", "volume-id", "snapshot", "snapshot-id",
					    "mode",   "read",      "pool-id",  "pool"};

	if (n == strlen(TAG_OURS) && memcmp(tag, TAG_OURS, n) == 0)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (n > length && memcmp(tag, names[i], length) == 0 && tag[length] == '=')
			return true;
	}
	return false;
}

int backup_tags_make(const struct backup_record *record, struct backup_tags *ret,
		     struct cairn_err *err)
{
	bool has_pool = record->pool_id && *record->pool_id;
	struct backup_tags tags = {{
		cairn_strdup(TAG_OURS),
		cairn_printf("volume=%s", record->volume),
		cairn_printf("volume-id=%s", record->volume_id),
		cairn_printf("snapshot=%s", record->snapshot),
		cairn_printf("snapshot-id=%s", record->snapshot_id),
		cairn_printf("mode=%s", record->mode),
		cairn_printf("read=%" PRIu64, record->bytes_read),
		has_pool ? cairn_printf("pool-id=%s", record->pool_id) : NULL,
		has_pool ? cairn_printf("pool=%s", record->pool_dir ? record->pool_dir : "") : NULL,
	}};

	tags.n = has_pool ? BACKUP_TAGS : BACKUP_TAGS - 2;
	for (size_t i = 0; i < tags.n; i++) {
		if (!tags.at[i]) {
			backup_tags_done(&tags);
			return cairn_err_nomem(err, "tags");
		}
	}
	*ret = tags;
	return 0;
}

void backup_tags_done(struct backup_tags *tags)
{
	for (size_t i = 0; i < BACKUP_TAGS; i++)
		free(tags->at[i]);
	*tags = (struct backup_tags){0};
}

char *backup_path_of(const char *volume_name)
{
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(NAME_MAX_BYTES);
	bool dots = strcmp(volume_name, ".") == 0 || strcmp(volume_name, "..") == 0;

	cairn_buf_addc(&path, '/');
	for (const char *p = volume_name; *p; p++) {
		if (*p == '/' || *p == '%' || dots)
			cairn_buf_addf(&path, "%%%02X", (unsigned char)*p);
		else
			cairn_buf_addc(&path, *p);
	}
	if (!*volume_name)
		cairn_buf_addc(&path, '%');
	return cairn_buf_take_string(&path);
}
