/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/snapshot_temporary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "pool/catalogue/front_end_note.h"
#include "pool/catalogue/record_key.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"

#define KEY_PREFIX   "temporary/"
#define KEY_MAX      (sizeof(KEY_PREFIX) + 16)
#define NAME_TRIES   10U
#define CHANCE_BYTES 2U

/* A line of the note: "VOLUME-ID NAME". */
struct entry {
	char volume[POOL_ID_MAX + 1];
	char name[POOL_NAME_MAX + 1];
	char snapshot[POOL_ID_MAX + 1]; /* "" before the cut */
	bool released;
};

struct pool_temporary {
	struct pool *pool;
	int lock_fd;
	char key[KEY_MAX];
	size_t n;
	struct entry entries[POOL_GROUP_MAX];
};

static const char *key_of(uint64_t number, char key[KEY_MAX])
{
	snprintf(key, KEY_MAX, KEY_PREFIX "%016" PRIx64, number);
	return key;
}

/* Takes a number that is not in use. */
static int snapshot_temporary_take_number(struct pool_temporary *t, struct cairn_err *err)
{
	uint64_t number;
	int rc = cairn_random_bytes(&number, sizeof(number), err);

	if (rc)
		return rc;
	number &= HANDLE_TEMPORARY_MASK;
	key_of(number, t->key);
	return pool_impl_lock_temporary(t->pool, number, &t->lock_fd, err);
}

/* The note lists the snapshots that are still to be deleted; without any, there is no
 * note. */
static int write_note(struct pool_temporary *t, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(POOL_NOTE_VALUE_MAX);
	size_t left = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (t->entries[i].released)
			continue;
		left++;
		cairn_buf_addf(&text, "%s %s\n", t->entries[i].volume, t->entries[i].name);
	}
	cairn_buf_addc(&text, '\0');
	if (cairn_buf_failed(&text))
		return cairn_err_nomem(err, "note of temporary snapshots");
	return pool_note_put(t->pool, t->key, left ? (const char *)text.data : NULL, err);
}

static int name_entries(struct pool_temporary *t, const char *prefix, struct cairn_err *err)
{
	time_t now = (time_t)(cairn_now_ns() / CAIRN_NS_PER_SEC);
	char stamp[32];
	char chance[2 * CHANCE_BYTES + 1];
	struct tm tm;
	int rc = cairn_random_hex(chance, CHANCE_BYTES, err);

	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	for (size_t i = 0; i < t->n && !rc; i++)
		snprintf(t->entries[i].name, sizeof(t->entries[i].name), "%.64s-%s-%s", prefix,
			 stamp, chance);
	return rc;
}

static int snapshot_temporary_find_volumes(struct pool_temporary *t, const char *const *volumes,
					   struct cairn_err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		struct pool_volume volume;
		int rc = pool_volume_get(t->pool, volumes[i], &volume, err);

		if (rc)
			return rc;
		memcpy(t->entries[i].volume, volume.id, sizeof(volume.id));
	}
	return 0;
}

static int snapshot_temporary_cut(struct pool_temporary *t, struct pool_snapshot *ret,
				  struct cairn_err *err)
{
	struct pool_snapshot_spec specs[POOL_GROUP_MAX];
	int rc;

	for (size_t i = 0; i < t->n; i++)
		specs[i] = (struct pool_snapshot_spec){.volume = t->entries[i].volume,
						       .name = t->entries[i].name};
	rc = write_note(t, err);
	if (!rc)
		rc = pool_snapshot_create(t->pool, specs, t->n, ret, err);
	for (size_t i = 0; i < t->n && !rc; i++)
		memcpy(t->entries[i].snapshot, ret[i].id, sizeof(ret[i].id));
	return rc;
}

static int cut_with_free_name(struct pool_temporary *t, const char *prefix,
			      struct pool_snapshot *ret, struct cairn_err *err)
{
	int rc = CAIRN_EXISTS;

	for (unsigned try = 0; try < NAME_TRIES && rc == CAIRN_EXISTS; try++) {
		rc = name_entries(t, prefix, err);
		if (!rc)
			rc = snapshot_temporary_cut(t, ret, err);
	}
	return rc;
}

int pool_temporary_cut(struct pool *pool, const char *const *volumes, size_t n, const char *prefix,
		       struct pool_snapshot *ret_snapshots, struct pool_temporary **ret,
		       struct cairn_err *err)
{
	cairn_cleanup(pool_temporary_freep) struct pool_temporary *t = NULL;
	int rc;

	if (n == 0 || n > POOL_GROUP_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "at most %u volumes can be cut at one point in time",
				     POOL_GROUP_MAX);
	t = cairn_calloc(1, sizeof(*t));
	if (!t)
		return cairn_err_nomem(err, "temporary snapshots");
	t->pool = pool;
	t->lock_fd = -1;
	t->n = n;
	rc = snapshot_temporary_find_volumes(t, volumes, err);
	if (!rc)
		rc = snapshot_temporary_take_number(t, err);
	if (!rc)
		rc = cut_with_free_name(t, prefix, ret_snapshots, err);
	if (rc)
		return rc;
	*ret = cairn_take(t);
	return 0;
}

/* A snapshot that no longer exists, or was deleted by another process, is not
 * an error. */
static int snapshot_temporary_delete_one(struct pool *pool, const char *snapshot,
					 struct cairn_err *err)
{
	struct pool_snapshot found;
	struct cairn_err why = {0};
	int rc = pool_snapshot_get(pool, snapshot, &found, &why);

	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION || (!rc && found.deleted))
		return 0;
	if (!rc)
		rc = pool_snapshot_delete(pool, found.id, &why);
	if (rc && rc != CAIRN_NOT_FOUND) {
		if (err)
			*err = why;
		return rc;
	}
	return 0;
}

int pool_temporary_release(struct pool_temporary *t, size_t i, bool keep, struct cairn_err *err)
{
	struct entry *entry = &t->entries[i];
	int rc = 0;

	if (entry->released)
		return 0;
	if (!keep && *entry->snapshot)
		rc = snapshot_temporary_delete_one(t->pool, entry->snapshot, err);
	if (rc)
		return rc;
	entry->released = true;
	return write_note(t, err);
}

void pool_temporary_free(struct pool_temporary *t)
{
	if (!t)
		return;
	/* For an entry that was never cut, only the note is updated. */
	for (size_t i = 0; i < t->n && t->lock_fd >= 0; i++)
		(void)pool_temporary_release(t, i, false, NULL);
	if (t->lock_fd >= 0)
		close(t->lock_fd);
	free(t);
}

/* ---- what others use --------------------------------------------------------- */

struct search {
	const char *line; /* of the snapshot */
	char key[KEY_MAX];
};

static int find_line(void *arg, const char *key, struct pool_note value, struct cairn_err *err)
{
	struct search *search = arg;
	size_t n = strlen(search->line);
	const char *at = value.len > 0 ? memmem(value.data, value.len, search->line, n) : NULL;

	(void)err;
	if (!at || (at != (const char *)value.data && at[-1] != '\n') ||
	    strlen(key) >= sizeof(search->key))
		return 0;
	memcpy(search->key, key, strlen(key) + 1);
	return 1;
}

int pool_temporary_is_held(struct pool *pool, const struct pool_snapshot *snapshot, bool *ret,
			   struct cairn_err *err)
{
	cairn_auto_free char *line = cairn_printf("%s %s\n", snapshot->volume_id, snapshot->name);
	struct search search = {.line = line};
	cairn_auto_fd int lock = -1;
	uint64_t number;
	int rc;

	*ret = false;
	if (!line)
		return cairn_err_nomem(err, "temporary snapshots");
	rc = pool_note_scan(pool, KEY_PREFIX, find_line, &search, err);
	if (rc || !pool_records_key_parse_hex(search.key + (*search.key ? strlen(KEY_PREFIX) : 0),
					      LEDGER_HEX, &number))
		return rc;
	rc = pool_impl_lock_temporary(pool, number, &lock, err);
	*ret = rc == CAIRN_ABORTED; /* its process is alive */
	return *ret ? 0 : rc;
}

/* ---- what others left -------------------------------------------------------- */

struct sweep {
	struct pool *pool;
	struct cairn_buf keys; /* NUL-terminated, one behind the other */
};

static int collect_key(void *arg, const char *key, struct pool_note value, struct cairn_err *err)
{
	struct sweep *sweep = arg;

	(void)value;
	(void)err;
	cairn_buf_add(&sweep->keys, key, strlen(key) + 1);
	return 0;
}

/* Deletes the snapshot of each line; *ret_left says that one of them could not
 * be deleted. */
static int delete_named(struct pool *pool, char *text, uint64_t *ret_deleted, bool *ret_left,
			struct cairn_err *err)
{
	char *rest = text;

	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
		char *space = strchr(line, ' ');
		struct pool_snapshot found;
		struct cairn_err why = {0};
		int rc;

		if (!space)
			continue;
		*space = '@'; /* VOLUME-ID@NAME */
		rc = pool_snapshot_get(pool, line, &found, &why);
		if (rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION || (!rc && found.deleted))
			continue;
		if (!rc)
			rc = pool_snapshot_delete(pool, found.id, &why);
		if (rc == CAIRN_PRECONDITION) {
			*ret_left = true;
			continue;
		}
		if (rc && rc != CAIRN_NOT_FOUND) {
			if (err)
				*err = why;
			return rc;
		}
		++*ret_deleted;
	}
	return 0;
}

static int sweep_note(struct pool *pool, const char *key, uint64_t *ret_deleted,
		      struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	cairn_auto_free char *text = NULL;
	bool left = false;
	uint64_t number;
	size_t len;
	int rc;

	if (!pool_records_key_parse_hex(key + strlen(KEY_PREFIX), LEDGER_HEX, &number))
		return 0;
	rc = pool_impl_lock_temporary(pool, number, &lock, err);
	if (rc == CAIRN_ABORTED)
		return 0; /* its process is alive */
	if (!rc)
		rc = pool_note_get(pool, key, &text, &len, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = delete_named(pool, text, ret_deleted, &left, err);
	return rc || left ? rc : pool_note_put(pool, key, NULL, err);
}

int pool_temporary_sweep(struct pool *pool, uint64_t *ret_deleted, struct cairn_err *err)
{
	struct sweep sweep = {.pool = pool};
	uint64_t deleted = 0;
	int rc;

	cairn_buf_init(&sweep.keys, SIZE_MAX);
	rc = pool_note_scan(pool, KEY_PREFIX, collect_key, &sweep, err);
	if (!rc && cairn_buf_failed(&sweep.keys))
		rc = cairn_err_nomem(err, "temporary snapshots");
	for (size_t at = 0; at < sweep.keys.len && !rc;) {
		const char *key = (const char *)sweep.keys.data + at;

		at += strlen(key) + 1;
		rc = sweep_note(pool, key, &deleted, err);
	}
	cairn_buf_done(&sweep.keys);
	*ret_deleted = deleted;
	return rc;
}
