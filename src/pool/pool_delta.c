/* SPDX-License-Identifier: Apache-2.0 */

/* Answers queries for changes from the change sets, and queries for allocated
 * blocks from the store's map of the target. */

#include "pool/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/lineage.h"
#include "block/union.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/changeset_build.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_compare.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"
#include "pool/store/store.h"

/* Merges may remove a set's file while a query collects its sets; then the
 * lineage is read again. Each failed attempt means another merge. */
#define OPEN_TRIES 1000

/* For all readers of a query together; each gets its share. */
#define READ_BUFFERS_TOTAL (16U << 20)
#define READ_BUFFER_MIN    4096U
#define READ_BUFFER_MAX    65536U

struct pool_delta {
	struct pool *pool;
	struct pool_delta_info info;
	struct block_union *sets; /* NULL: an allocated query */
	struct setfile_reader **files;
	size_t n_files;
	uint64_t position;            /* of an allocated query */
	struct pool_compare *compare; /* NULL: not compared */
};

static int parent_of(void *arg, uint64_t number, uint64_t *ret_parent, struct cairn_err *err)
{
	struct pool *pool = arg;
	struct record_snapshot record;
	int rc = pool_records_snapshot_get(pool->cat, number, &record, err);

	if (!rc)
		*ret_parent = record.parent;
	return rc;
}

static void close_files(struct pool_delta *delta)
{
	for (size_t i = 0; i < delta->n_files; i++)
		pool_changeset_file_reader_freep(&delta->files[i]);
	free(delta->files);
	delta->files = NULL;
	delta->n_files = 0;
}

static int open_set(struct pool_delta *delta, uint64_t number, size_t buffer,
		    const struct store_progress *progress, struct cairn_err *err)
{
	struct pool *pool = delta->pool;
	struct record_snapshot record;
	char name[SETFILE_NAME_MAX];
	int rc = pool_changeset_build(pool, number, LEFTOVER_NO_LOCK, progress, err);

	if (!rc)
		rc = pool_records_snapshot_get(pool->cat, number, &record, err);
	if (rc)
		return rc;
	if (record.set == POOL_SET_NONE) /* an expiry has just made it the first of its line */
		return cairn_err_set(err, CAIRN_NOT_FOUND, "snapshot %llu has no change set",
				     (unsigned long long)number);
	if (record.set == POOL_SET_LOST)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "a change set between the two snapshots was lost: what "
				     "changed is not known, do a full backup");
	pool_changeset_file_name(number, record.set_generation, name);
	rc = pool_changeset_file_reader_new(pool->sets, name, buffer, &delta->files[delta->n_files],
					    err);
	if (!rc)
		delta->n_files++;
	return rc;
}

static int open_sets(struct pool_delta *delta, const struct block_lineage_step *steps, size_t n,
		     const struct pool_delta_spec *spec, struct cairn_err *err)
{
	size_t buffer = n ? READ_BUFFERS_TOTAL / n : READ_BUFFER_MAX;
	int rc = 0;

	buffer = buffer < READ_BUFFER_MIN ? READ_BUFFER_MIN : buffer;
	buffer = buffer > READ_BUFFER_MAX ? READ_BUFFER_MAX : buffer;
	delta->files = cairn_calloc(n, sizeof(struct setfile_reader *));
	if (!delta->files)
		return cairn_err_nomem(err, "delta");
	for (size_t i = 0; i < n && !rc; i++)
		rc = open_set(delta, steps[i].number, buffer, spec->progress, err);
	return rc;
}

static int start_union(struct pool_delta *delta, const struct block_lineage_step *steps, size_t n,
		       uint64_t starting_offset, struct cairn_err *err)
{
	cairn_auto_free struct block_union_input *inputs = cairn_calloc(n, sizeof(*inputs));
	struct block_union_spec spec = {
		.inputs = inputs,
		.n_inputs = n,
		.target_size = delta->info.capacity,
		.starting_offset = starting_offset,
	};

	if (!inputs)
		return cairn_err_nomem(err, "delta");
	for (size_t i = 0; i < n; i++) {
		inputs[i].reader = pool_changeset_file_reader_take(delta->files[i]);
		inputs[i].zero_unknown = steps[i].on_base_side;
	}
	return block_union_new(&spec, &delta->sets, err);
}

/* CAIRN_NOT_FOUND and CAIRN_DATA_LOSS may be the result of a concurrent
 * merge. */
static int try_open(struct pool_delta *delta, uint64_t base, uint64_t target,
		    const struct pool_delta_spec *spec, struct cairn_err *err)
{
	struct block_lineage_source source = {.parent = parent_of, .arg = delta->pool};
	cairn_auto_free struct block_lineage_step *steps = NULL;
	size_t n;
	int rc = block_lineage_path(source, base, target, &steps, &n, err);

	if (rc)
		return rc;
	rc = open_sets(delta, steps, n, spec, err);
	if (!rc)
		rc = start_union(delta, steps, n, spec->starting_offset, err);
	return rc;
}

/* The requested snapshots themselves may have been merged or deleted. Looked up
 * by id, because the name may belong to another snapshot by now. */
static int check_still_there(struct pool_delta *delta, struct cairn_err *err)
{
	struct record_snapshot again;
	int rc = pool_impl_find_snapshot(delta->pool, delta->info.base.id, &again, err);

	return rc ? rc
		  : pool_impl_find_live_snapshot(delta->pool, delta->info.target.id, &again, err);
}

/* Names the two snapshots, and their volumes if these are two. */
static int say_pair(const struct pool_delta *delta, const struct pool_delta_spec *spec,
		    struct cairn_err *err)
{
	const char *base = delta->info.base.volume_name;
	const char *target = delta->info.target.volume_name;

	if (strcmp(base, target) == 0)
		return cairn_err_wrap(err, "'%s' and '%s'", spec->base, spec->target);
	return cairn_err_wrap(err, "'%s' of volume '%s' and '%s' of volume '%s'", spec->base, base,
			      spec->target, target);
}

/* A missing record or file is permanent if two attempts miss the same one: merges
 * change every record that names an object before removing it, and numbers are
 * never reused. */
static int open_changes(struct pool_delta *delta, const struct record_snapshot *base,
			const struct record_snapshot *target, const struct pool_delta_spec *spec,
			struct cairn_err *err)
{
	struct cairn_err before = {0};

	for (int try = 0; try < OPEN_TRIES; try++) {
		struct cairn_err why = {0};
		int rc;

		close_files(delta);
		rc = try_open(delta, base->number, target->number, spec, &why);
		if (rc == CAIRN_NOT_FOUND || rc == CAIRN_DATA_LOSS || rc == CAIRN_INVALID) {
			int gone = check_still_there(delta, err);

			if (gone)
				return gone;
		}
		if (rc && err)
			*err = why;
		if (rc == CAIRN_INVALID)
			return say_pair(delta, spec, err);
		if (rc != CAIRN_NOT_FOUND && rc != CAIRN_DATA_LOSS)
			return rc;
		if (strcmp(why.msg, before.msg) == 0)
			return rc == CAIRN_DATA_LOSS
				       ? rc
				       : cairn_err_set(err, CAIRN_DATA_LOSS,
						       "a change set's file is missing; run: cairn "
						       "pool check");
		before = why;
	}
	return cairn_err_set(err, CAIRN_ABORTED,
			     "the change sets between the two keep being merged; try again");
}

static int pool_delta_resolve(struct pool_delta *delta, const struct pool_delta_spec *spec,
			      struct record_snapshot *ret_base, struct record_snapshot *ret_target,
			      struct cairn_err *err)
{
	int rc = pool_impl_find_live_snapshot(delta->pool, spec->target, ret_target, err);

	if (!rc)
		rc = pool_impl_fill_snapshot(delta->pool, ret_target, &delta->info.target, err);
	if (!rc && spec->base)
		rc = pool_impl_find_snapshot(delta->pool, spec->base, ret_base, err);
	if (!rc && spec->base)
		rc = pool_impl_fill_snapshot(delta->pool, ret_base, &delta->info.base, err);
	if (rc)
		return rc;
	delta->info.capacity = ret_target->size;
	if (spec->starting_offset > ret_target->size)
		return cairn_err_set(err, CAIRN_RANGE,
				     "the starting offset is beyond the end of the volume (%llu "
				     "bytes)",
				     (unsigned long long)ret_target->size);
	return 0;
}

/* Replaces the failure `rc` of open_changes() by a comparison, if that is allowed. */
static int open_compared(struct pool_delta *delta, const struct record_snapshot *target, int rc,
			 const struct pool_delta_spec *spec, struct cairn_err *err)
{
	struct record_snapshot base;
	struct pool_compare_spec compare = {
		.store = delta->pool->store,
		.base_id = delta->info.base.id,
		.target_id = delta->info.target.id,
		.base_size = delta->info.base.size,
		.target_size = target->size,
		.start = spec->starting_offset,
		.progress = spec->progress,
	};

	if ((rc != CAIRN_INVALID && rc != CAIRN_PRECONDITION) || spec->compare_max == 0 ||
	    pool_impl_find_live_snapshot(delta->pool, delta->info.base.id, &base, NULL) != 0)
		return rc;
	if (base.size > spec->compare_max || target->size > spec->compare_max)
		return cairn_err_wrap(err, "too large to be compared (limit: %llu bytes)",
				      (unsigned long long)spec->compare_max);
	close_files(delta);
	delta->info.compared = true;
	return pool_compare_new(&compare, &delta->compare, err);
}

int pool_delta_open(struct pool *pool, const struct pool_delta_spec *spec, struct pool_delta **ret,
		    struct cairn_err *err)
{
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = cairn_calloc(1, sizeof(*delta));
	struct record_snapshot base;
	struct record_snapshot target;
	int rc;

	if (!delta)
		return cairn_err_nomem(err, "delta");
	delta->pool = pool;
	delta->position = spec->starting_offset;
	rc = pool_delta_resolve(delta, spec, &base, &target, err);
	if (!rc && spec->base) {
		rc = open_changes(delta, &base, &target, spec, err);
		if (rc)
			rc = open_compared(delta, &target, rc, spec, err);
	}
	if (rc)
		return rc;
	*ret = cairn_take(delta);
	return 0;
}

void pool_delta_free(struct pool_delta *delta)
{
	block_union_freep(&delta->sets);
	pool_compare_freep(&delta->compare);
	close_files(delta);
	free(delta);
}

const struct pool_delta_info *pool_delta_info(const struct pool_delta *delta)
{
	return &delta->info;
}

/* Clips to [position, capacity) and moves the position on. */
static int next_allocated(struct pool_delta *delta, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err)
{
	struct store_ref ref = {STORE_SNAPSHOT, delta->info.target.id};
	size_t kept = 0;
	size_t n;
	int rc = pool_store_allocated(delta->pool->store, ref, delta->position, out, max, &n, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		uint64_t end = block_extent_end(&out[i]);
		uint64_t start = out[i].offset;

		end = end < delta->info.capacity ? end : delta->info.capacity;
		start = start > delta->position ? start : delta->position;
		if (start >= end)
			continue;
		out[kept++] = (struct block_extent){.offset = start, .length = end - start};
		delta->position = end;
	}
	*ret_n = kept;
	return 0;
}

int pool_delta_next(struct pool_delta *delta, struct block_extent *out, size_t max, size_t *ret_n,
		    struct cairn_err *err)
{
	if (delta->compare)
		return pool_compare_next(delta->compare, out, max, ret_n, err);
	if (delta->sets)
		return block_union_next(delta->sets, out, max, ret_n, err);
	return next_allocated(delta, out, max, ret_n, err);
}
