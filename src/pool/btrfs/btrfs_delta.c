/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/btrfs_delta.h"

#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/btrfs/btrfs_tree.h"
#include "pool/btrfs/send.h"
#include "pool/btrfs/subvolume.h"
#include "pool/btrfs_relocation.h"
#include "pool/store/mapping.h"
#include "pool/store/store.h"

/* Mappings searched (of both sides) before the send stream is considered:
 * searching that many costs about as much as starting a stream. */
#define TREE_FIRST 32768U

/* The stream costs up to this many times as much for each item in a leaf newer
 * than the base as the search does for a mapping. */
#define SEND_PRICE 48U

/* Searching this far costs less than another search. */
#define WINDOW_GAP (1ULL << 20)

struct run {
	const struct btrfs_delta *delta;
	struct mapping_compare compare;
	struct extent_merge joiner;
	uint64_t walked_elsewhere;
	bool sent;
	struct mapping_guard guard;
};

static int run_epoch(void *arg, uint64_t *ret, struct cairn_err *err)
{
	const struct run *run = arg;

	return pool_relocation_epoch(run->delta->target->file_fd, ret, err);
}

static int seek_sources(void *arg, uint64_t from, uint64_t to, struct cairn_err *err)
{
	struct run *run = arg;
	int rc = btrfs_tree_source_seek(run->compare.base.source, from, to, err);

	return rc ? rc : btrfs_tree_source_seek(run->compare.target.source, from, to, err);
}

/* Compares [from, to) of the target by tree search. */
static int compare_window(struct run *run, uint64_t from, uint64_t to, struct cairn_err *err)
{
	bool done;
	int rc = seek_sources(run, from, to, err);

	if (rc)
		return rc;
	pool_mapping_compare_move(&run->compare, from, to);
	return pool_mapping_compare_run(&run->compare, UINT64_MAX, &run->joiner,
					run->delta->progress, &done, err);
}

/* The stream reports where to search, rounded up; the search decides. So both
 * methods find the same changes. Ranges close to each other are searched
 * together. */
static int compare_ranges(struct run *run, const struct block_extent *ranges, size_t n,
			  struct cairn_err *err)
{
	uint64_t pos = run->compare.pos, size = run->delta->target->size;
	uint64_t common = run->delta->base->size < size ? run->delta->base->size : size;

	for (size_t i = 0; i < n && pos < common;) {
		uint64_t from = ranges[i].offset > pos ? ranges[i].offset : pos;
		uint64_t to = block_extent_end(&ranges[i]);
		int rc;

		while (++i < n && ranges[i].offset <= to + WINDOW_GAP)
			to = block_extent_end(&ranges[i]);
		to = to < common ? to : common;
		if (from >= to)
			continue;
		rc = compare_window(run, from, to, err);
		if (rc)
			return rc;
		pos = to;
	}
	pos = pos > common ? pos : common;
	return pos < size ? compare_window(run, pos, size, err) : 0;
}

/* On failure no range was emitted. */
static int run_send(struct run *run, struct block_extent **ret_ranges, size_t *ret_n,
		    struct cairn_err *err)
{
	const struct btrfs_delta *d = run->delta;
	struct send_spec spec = {
		.base_fd = d->base->subvolume_fd,
		.target_fd = d->target->subvolume_fd,
		.path = d->path,
		.target_size = d->target->size,
		.progress = d->progress,
	};

	int rc = btrfs_send_changes(&spec, ret_ranges, ret_n, err);

	if (rc == 0)
		run->walked_elsewhere += *ret_n;
	return rc;
}

/* Estimates the remaining mappings of both sides from the average so far. */
static uint64_t mappings_left(const struct run *run)
{
	const struct mapping_cursor *t = &run->compare.target;
	uint64_t average = t->seen > 0 ? t->data_bytes / t->seen : 0;
	struct stat st;

	if (average == 0 || fstat(run->delta->target->file_fd, &st) < 0)
		return 0;
	uint64_t total = (uint64_t)st.st_blocks * 512;

	return total > t->data_bytes ? 2 * ((total - t->data_bytes) / average) : 0;
}

/* True if few items in the remaining range are newer than the base. The count
 * costs at most a small part of the search that it may save. */
static bool few_changes(struct run *run)
{
	const struct btrfs_delta *d = run->delta;
	uint64_t max = mappings_left(run) / SEND_PRICE, newer = 0;
	struct subvolume_info base;

	if (max > SEND_RANGES_MAX)
		max = SEND_RANGES_MAX;
	if (max == 0 || btrfs_subvolume_info_get(d->base->subvolume_fd, &base, NULL) != 0)
		return false;
	if (btrfs_tree_count_newer(d->target->file_fd, run->compare.pos, base.cut_generation, max,
				   &newer, NULL) != 0)
		return false;
	run->walked_elsewhere += newer;
	return newer < max;
}

static int run_methods(struct run *run, struct cairn_err *err)
{
	const struct btrfs_delta *d = run->delta;
	cairn_auto_free struct block_extent *ranges = NULL;
	bool done = false, send = d->method == BTRFS_METHOD_SEND;
	size_t n = 0;
	int rc = 0;

	if (d->method == BTRFS_METHOD_AUTO) {
		rc = pool_mapping_compare_run(&run->compare, TREE_FIRST, &run->joiner, d->progress,
					      &done, err);
		if (rc || done)
			return rc;
		send = few_changes(run);
	}
	if (send) {
		rc = run_send(run, &ranges, &n, err);
		run->sent = rc == 0;
		if (rc == 0)
			return compare_ranges(run, ranges, n, err);
		/* Fall back to the search, which handles everything the stream
		 * cannot. */
		if (rc == CAIRN_CANCELLED || d->method == BTRFS_METHOD_SEND)
			return rc;
	}
	return pool_mapping_compare_run(&run->compare, UINT64_MAX, &run->joiner, d->progress, &done,
					err);
}

int btrfs_delta_run(const struct btrfs_delta *delta, struct store_delta_stats *ret_stats,
		    struct cairn_err *err)
{
	cairn_cleanup(btrfs_tree_source_freep) struct mapping_source *base = NULL;
	cairn_cleanup(btrfs_tree_source_freep) struct mapping_source *target = NULL;
	cairn_auto_free struct run *run = cairn_alloc(sizeof(*run));
	int rc;

	if (!run)
		return cairn_err_nomem(err, "comparison");
	rc = btrfs_tree_source_new(delta->base->file_fd, &base, err);
	rc = rc ? rc : btrfs_tree_source_new(delta->target->file_fd, &target, err);
	if (rc)
		return rc;
	pool_mapping_compare_init(&run->compare, base, delta->base->size, target,
				  delta->target->size);
	run->delta = delta;
	run->joiner = (struct extent_merge){.sink = delta->sink};
	run->walked_elsewhere = 0;
	run->sent = false;
	run->guard = (struct mapping_guard){run_epoch, seek_sources, run};
	rc = pool_mapping_compare_set_guard(&run->compare, &run->guard, err);
	rc = rc ? rc : run_methods(run, err);
	rc = rc ? rc : pool_extent_merge_flush(&run->joiner, err);
	ret_stats->extents_walked =
		pool_mapping_compare_seen(&run->compare) + run->walked_elsewhere;
	ret_stats->method = run->sent ? "send" : "tree";
	return rc;
}
