/* SPDX-License-Identifier: Apache-2.0 */

/* A tombstone T between its predecessor P and its successors C is merged as
 * follows: each C gets the union of T's set and its own, and P as predecessor;
 * volumes whose head was T fall back to the nearest ancestor that still has
 * data. All records change in one commit; new sets are written before it, old
 * files and data are removed after it. If T has no predecessor, its successors
 * become first of their line.
 */

#include "pool/snapshot_expire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "block/union.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/changeset_build.h"
#include "pool/cleanup_queue.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"

/* Maximum number of merges done as a side task of another operation. */
#define SOME 4

#define COPY_BATCH   1024
#define EXPIRE_BATCH 256

/* Maximum number of tombstones that one call skips beyond its maximum: each may
 * cost the reading of its sets. */
#define PASS_MAX 64

/* An attempt fails when a volume begins to depend on the tombstone. */
#define MERGE_TRIES 4

struct merge {
	struct pool *pool;
	struct record_snapshot grave; /* T */
	uint64_t *children;
	size_t n_children;
	int *set_locks;
	struct record_snapshot *before;
	struct record_snapshot *after;
};

static int copy_union(struct block_union *u, struct setfile_writer *writer, struct cairn_err *err)
{
	struct block_extent extents[COPY_BATCH];
	size_t n;

	do {
		int rc = block_union_next(u, extents, COPY_BATCH, &n, err);

		for (size_t i = 0; i < n && !rc; i++)
			rc = block_set_writer_add(pool_changeset_file_writer_set(writer),
						  &extents[i], err);
		if (rc)
			return rc;
	} while (n > 0);
	return 0;
}

/* Writes the union of T's set and the child's as the child's next generation. */
static int write_merged(struct merge *m, const struct record_snapshot *child,
			struct record_snapshot *now, struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_reader_freep) struct setfile_reader *older = NULL;
	cairn_cleanup(pool_changeset_file_reader_freep) struct setfile_reader *newer = NULL;
	cairn_cleanup(block_union_freep) struct block_union *u = NULL;
	cairn_cleanup(pool_changeset_file_writer_freep) struct setfile_writer *writer = NULL;
	struct block_union_input inputs[2] = {0};
	struct block_union_spec spec = {
		.inputs = inputs, .n_inputs = 2, .target_size = child->size};
	struct block_set_info info;
	char name[SETFILE_NAME_MAX];
	int rc;

	pool_changeset_file_name(m->grave.number, m->grave.set_generation, name);
	rc = pool_changeset_file_reader_new(m->pool->sets, name, 0, &older, err);
	pool_changeset_file_name(child->number, child->set_generation, name);
	if (!rc)
		rc = pool_changeset_file_reader_new(m->pool->sets, name, 0, &newer, err);
	if (rc)
		return rc;
	info = *block_set_reader_info(pool_changeset_file_reader_set(newer));
	info.base_size = block_set_reader_info(pool_changeset_file_reader_set(older))->base_size;
	inputs[0].reader = pool_changeset_file_reader_take(older);
	inputs[1].reader = pool_changeset_file_reader_take(newer);
	rc = block_union_new(&spec, &u, err);
	pool_changeset_file_name(child->number, now->set_generation, name);
	if (!rc)
		rc = pool_changeset_file_writer_new(m->pool->sets, name, &info, &writer, err);
	if (!rc)
		rc = copy_union(u, writer, err);
	if (!rc)
		rc = pool_changeset_file_writer_finish(writer, &info, err);
	if (rc)
		return rc;
	now->set_extents = info.extents;
	now->set_changed_bytes = info.changed_bytes;
	now->set_zero_bytes = info.zero_bytes;
	return 0;
}

/* The child's record as it will be, and its set on disk. */
static int prepare_child(struct merge *m, size_t i, struct cairn_err *err)
{
	struct record_snapshot *now = &m->after[i];
	char name[SETFILE_NAME_MAX];
	int rc = pool_impl_lock_set(m->pool, m->children[i], 0, &m->set_locks[i], err);

	if (!rc)
		rc = pool_records_snapshot_get(m->pool->cat, m->children[i], &m->before[i], err);
	if (rc)
		return rc;
	if (m->before[i].set == POOL_SET_PENDING)
		return cairn_err_set(err, CAIRN_ABORTED, "a change set is not made yet");
	*now = m->before[i];
	now->parent = m->grave.parent;
	now->parent_volume = m->grave.parent ? m->grave.parent_volume : 0;
	now->set_generation++;
	if (!m->grave.parent) {
		now->set = POOL_SET_NONE;
		now->set_extents = now->set_changed_bytes = now->set_zero_bytes = 0;
		return 0;
	}
	if (m->grave.set != POOL_SET_READY || now->set != POOL_SET_READY) {
		now->set = POOL_SET_LOST;
		return 0;
	}
	pool_changeset_file_name(now->number, now->set_generation, name);
	rc = pool_cleanup_note(m->pool, name, err);
	return rc ? rc : write_merged(m, &m->before[i], now, err);
}

/* The nearest ancestor whose data is still there; number 0 when none is. */
static int find_ancestor_with_data(struct pool *pool, uint64_t number, struct record_snapshot *ret,
				   struct cairn_err *err)
{
	*ret = (struct record_snapshot){0};
	while (number) {
		struct record_snapshot ancestor;
		int rc = pool_records_snapshot_get(pool->cat, number, &ancestor, err);

		if (rc)
			return rc;
		if (ancestor.has_data) {
			*ret = ancestor;
			return 0;
		}
		number = ancestor.parent;
	}
	return 0;
}

/* Volumes whose next snapshot would have been compared with T. */
static int move_heads(struct merge *m, struct catalogue_batch *batch, struct cairn_err *err)
{
	cairn_auto_free uint64_t *volumes = NULL;
	struct record_snapshot ancestor;
	size_t n;
	int rc = pool_records_collect(m->pool->cat, LEDGER_HEADS, m->grave.number, &volumes, &n,
				      err);

	if (rc || n == 0)
		return rc;
	rc = find_ancestor_with_data(m->pool, m->grave.parent, &ancestor, err);
	for (size_t i = 0; i < n && !rc; i++) {
		struct record_volume old;
		struct record_volume now;

		rc = pool_records_volume_get(m->pool->cat, volumes[i], &old, err);
		if (rc)
			return rc;
		now = old;
		now.head = ancestor.number;
		pool_records_volume_change(batch, &old, &now);
	}
	if (!rc && ancestor.number) {
		struct record_snapshot now = ancestor;

		now.revision++; /* makes a concurrent release of its data fail */
		rc = pool_records_snapshot_change(m->pool->cat, batch, &ancestor, &now, err);
	}
	return rc;
}

/* A deleted volume's record is removed with its last snapshot. */
static int drop_empty_volume(struct merge *m, struct catalogue_batch *batch, struct cairn_err *err)
{
	cairn_auto_free uint64_t *numbers = NULL;
	struct record_volume volume;
	size_t n;
	int rc = pool_records_volume_get(m->pool->cat, m->grave.volume, &volume, err);

	if (rc || !volume.deleted)
		return rc;
	rc = pool_records_collect(m->pool->cat, LEDGER_SNAPSHOTS, volume.volume, &numbers, &n, err);
	if (!rc && n == 1)
		pool_records_volume_change(batch, &volume, NULL);
	return rc;
}

static void note_old_files(struct merge *m, struct catalogue_batch *batch, char *grave_id)
{
	char name[SETFILE_NAME_MAX];

	pool_ids_format_snapshot(m->grave.volume, m->grave.number, grave_id);
	pool_records_cleanup_add(batch, grave_id);
	pool_changeset_file_name(m->grave.number, m->grave.set_generation, name);
	if (m->grave.set == POOL_SET_READY)
		pool_records_cleanup_add(batch, name);
	for (size_t i = 0; i < m->n_children; i++) {
		pool_changeset_file_name(m->before[i].number, m->before[i].set_generation, name);
		if (m->before[i].set == POOL_SET_READY)
			pool_records_cleanup_add(batch, name);
		/* Without a set, an attempt that failed may have left its file. */
		pool_changeset_file_name(m->after[i].number, m->after[i].set_generation, name);
		if (m->after[i].set == POOL_SET_READY)
			pool_records_cleanup_clear(batch, name);
	}
}

static int commit_merge(struct merge *m, char *grave_id, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(m->pool->cat, &batch, err);

	for (size_t i = 0; i < m->n_children && !rc; i++)
		rc = pool_records_snapshot_change(m->pool->cat, batch, &m->before[i], &m->after[i],
						  err);
	if (!rc)
		rc = move_heads(m, batch, err);
	if (!rc)
		rc = drop_empty_volume(m, batch, err);
	if (!rc)
		rc = pool_records_snapshot_change(m->pool->cat, batch, &m->grave, NULL, err);
	if (rc)
		return rc;
	note_old_files(m, batch, grave_id);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static void settle_old_files(struct merge *m, const char *grave_id)
{
	struct cairn_err ignored;
	char name[SETFILE_NAME_MAX];

	for (size_t i = 0; i < m->n_children; i++) {
		cairn_closep(&m->set_locks[i]);
		m->set_locks[i] = -1;
		pool_changeset_file_name(m->before[i].number, m->before[i].set_generation, name);
		(void)pool_cleanup_settle(m->pool, name, m->grave.volume, &ignored);
	}
	pool_changeset_file_name(m->grave.number, m->grave.set_generation, name);
	if (m->grave.set == POOL_SET_READY)
		(void)pool_cleanup_settle(m->pool, name, m->grave.volume, &ignored);
	(void)pool_cleanup_settle(m->pool, grave_id, m->grave.volume, &ignored);
}

/* Reads T first, then the records that depend on it. An operation that later
 * begins to depend on T changes its record, and the commit, which expects the
 * record as read, fails with CAIRN_ABORTED. */
static int read_family(struct merge *m, struct cairn_err *err)
{
	int rc = pool_records_snapshot_get(m->pool->cat, m->grave.number, &m->grave, err);

	if (!rc && m->grave.set == POOL_SET_PENDING)
		rc = cairn_err_set(err, CAIRN_ABORTED, "a change set is not made yet");
	if (!rc)
		rc = pool_records_collect(m->pool->cat, LEDGER_CHILDREN, m->grave.number,
					  &m->children, &m->n_children, err);
	if (rc)
		return rc;
	m->set_locks = cairn_calloc(m->n_children, sizeof(*m->set_locks));
	m->before = cairn_calloc(m->n_children, sizeof(*m->before));
	m->after = cairn_calloc(m->n_children, sizeof(*m->after));
	if (!m->set_locks || !m->before || !m->after)
		return cairn_err_nomem(err, "merge");
	for (size_t i = 0; i < m->n_children; i++)
		m->set_locks[i] = -1;
	return 0;
}

static void merge_done(struct merge *m)
{
	for (size_t i = 0; m->set_locks && i < m->n_children; i++)
		cairn_closep(&m->set_locks[i]);
	free(m->children);
	free(m->set_locks);
	free(m->before);
	free(m->after);
}

/* Call with the lock of T's volume. */
static int merge_locked(struct pool *pool, uint64_t number, uint64_t now_ns, struct cairn_err *err)
{
	cairn_cleanup(merge_done) struct merge m = {.pool = pool, .grave.number = number};
	char grave_id[POOL_ID_MAX + 1];
	int rc = read_family(&m, err);

	if (!rc && (!m.grave.deleted || m.grave.expires_ns > now_ns))
		return CAIRN_NOT_FOUND; /* not the one that was listed */
	for (size_t i = 0; i < m.n_children && !rc; i++)
		rc = prepare_child(&m, i, err);
	if (!rc)
		rc = commit_merge(&m, grave_id, err);
	if (!rc)
		settle_old_files(&m, grave_id);
	return rc;
}

static int merge_one(struct pool *pool, uint64_t number, uint64_t now_ns, struct cairn_err *err)
{
	cairn_auto_fd int turn = -1;
	int rc = pool_impl_lock_merge(pool, number, &turn, err);

	if (rc)
		return rc;
	rc = CAIRN_ABORTED;
	for (int try = 0; try < MERGE_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_auto_fd int lock = -1;
		struct record_snapshot grave;

		rc = pool_records_snapshot_get(pool->cat, number, &grave, err);
		if (!rc) /* it may take long: without the lock */
			rc = pool_changeset_build_family(pool, number, LEFTOVER_NO_LOCK, err);
		if (!rc)
			rc = pool_impl_lock_volume(pool, grave.volume, 0, &lock, err);
		if (rc)
			return rc;
		rc = merge_locked(pool, number, now_ns, err);
	}
	return rc;
}

/* Tombstones that cannot be merged must not block the others. */
struct expiry {
	size_t merged;
	size_t passed; /* over: these come first among the expired, and stay */
	int rc;        /* the first failure that is not a conflict */
	struct cairn_err err;
};

/* True where another tombstone would fail in the same way. */
static bool ends_expiry(int rc)
{
	return rc == CAIRN_NO_SPACE || rc == CAIRN_CANCELLED || rc == CAIRN_DENIED ||
	       rc == CAIRN_PRECONDITION || rc == CAIRN_UNAVAILABLE;
}

static void snapshot_expire_pass_over(struct expiry *expiry, int rc, const struct cairn_err *why)
{
	expiry->passed++;
	if (rc == CAIRN_ABORTED || rc == CAIRN_NOT_FOUND || expiry->rc)
		return; /* in use by another operation, or not the first failure */
	expiry->rc = rc;
	expiry->err = *why;
}

/* Tries up to `max` of the oldest tombstones after those skipped; *ret_n == 0:
 * nothing more can be done. */
static int expire_batch(struct pool *pool, size_t max, struct expiry *expiry, size_t *ret_n,
			struct cairn_err *err)
{
	uint64_t numbers[EXPIRE_BATCH];
	uint64_t now_ns = cairn_now_ns();
	int rc = pool_records_expired(pool->cat, now_ns, expiry->passed,
				      max < EXPIRE_BATCH ? max : EXPIRE_BATCH, numbers, ret_n, err);

	for (size_t i = 0; i < *ret_n && !rc; i++) {
		struct cairn_err why = {0};
		int merge_rc = merge_one(pool, numbers[i], now_ns, &why);

		if (!merge_rc)
			expiry->merged++;
		else if (!ends_expiry(merge_rc))
			snapshot_expire_pass_over(expiry, merge_rc, &why);
		else
			rc = merge_rc;
		if (rc && err)
			*err = why;
	}
	return rc;
}

int pool_expire(struct pool *pool, size_t max, size_t *ret_merged, struct cairn_err *err)
{
	struct expiry expiry = {.merged = 0};
	size_t passes = max < SIZE_MAX - PASS_MAX ? max + PASS_MAX : SIZE_MAX;
	size_t n = 1;
	int rc = pool_impl_check_writable(pool, err);

	while (!rc && n > 0 && expiry.merged < max && expiry.passed < passes)
		rc = expire_batch(pool, max - expiry.merged, &expiry, &n, err);
	if (!rc && expiry.rc && expiry.merged == 0) {
		if (err)
			*err = expiry.err;
		return expiry.rc;
	}
	if (!rc)
		*ret_merged = expiry.merged;
	return rc;
}

void pool_expire_some(struct pool *pool)
{
	struct cairn_err err = {0};
	size_t merged;

	int rc = pool_expire(pool, SOME, &merged, &err);

	/* Damage persists until it is repaired; other failures are
	 * transient. */
	if (rc)
		cairn_log(rc == CAIRN_DATA_LOSS ? CAIRN_LOG_WARN : CAIRN_LOG_DEBUG,
			  "expiry left for later", CAIRN_STR("reason", err.msg));
}
