/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/delta.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/btrfs/send.h"
#include "pool/btrfs/subvolume.h"
#include "pool/btrfs/tree.h"
#include "pool/mapping.h"
#include "pool/store.h"

/* Mappings searched (of both sides) before the send stream is thought of: what
 * is done by then is cheaper than starting it. */
#define TREE_FIRST 65536U

/* Items in leaves newer than the base up to which the send stream is used. */
#define SEND_ITEMS_MAX 16384U

struct run {
	const struct btrfs_delta *delta;
	struct mapping_compare compare;
	struct joiner joiner;
	uint64_t walked_elsewhere;
	bool sent;
};

/* Passes [from, to) of the target on, told apart into data and zeros. */
static int emit_split(struct run *run, uint64_t from, uint64_t to, struct cairn_err *err)
{
	int fd = run->delta->target->file_fd;

	while (from < to) {
		off_t data = lseek(fd, (off_t)from, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		uint64_t start, end;
		int rc;

		if (hole < 0 && errno != ENXIO)
			return cairn_err_sys(err, errno, "find data");
		start = hole < 0 || (uint64_t)data > to ? to : (uint64_t)data;
		end = hole < 0 || (uint64_t)hole > to ? to : (uint64_t)hole;
		rc = joiner_add(&run->joiner, from, start - from, true, err);
		rc = rc ? rc : joiner_add(&run->joiner, start, end - start, false, err);
		if (rc)
			return rc;
		from = end;
	}
	return 0;
}

/* Passes on what the list holds from `pos` on, and what the target grew. */
static int emit_ranges(struct run *run, const struct block_extent *ranges, size_t n,
		       struct cairn_err *err)
{
	uint64_t pos = run->compare.pos, size = run->delta->target->size;
	uint64_t common = run->delta->base->size < size ? run->delta->base->size : size;

	for (size_t i = 0; i < n; i++) {
		uint64_t from = ranges[i].offset > pos ? ranges[i].offset : pos;
		uint64_t to = block_extent_end(&ranges[i]);
		int rc = emit_split(run, from, to < common ? to : common, err);

		if (rc)
			return rc;
	}
	return emit_split(run, pos > common ? pos : common, size, err);
}

/* On failure nothing was passed on. */
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

	int rc = send_changes(&spec, ret_ranges, ret_n, err);

	if (rc == 0)
		run->walked_elsewhere += *ret_n;
	return rc;
}

/* Is little enough newer than the base in what is left? */
static bool few_changes(struct run *run)
{
	const struct btrfs_delta *d = run->delta;
	struct subvolume_info base;
	uint64_t newer = 0;

	if (subvolume_info_get(d->base->subvolume_fd, &base, NULL) != 0)
		return false;
	if (tree_count_newer(d->target->file_fd, run->compare.pos, base.cut_generation,
			     SEND_ITEMS_MAX, &newer, NULL) != 0)
		return false;
	run->walked_elsewhere += newer;
	return newer < SEND_ITEMS_MAX;
}

static int run_methods(struct run *run, struct cairn_err *err)
{
	const struct btrfs_delta *d = run->delta;
	cairn_auto_free struct block_extent *ranges = NULL;
	bool done = false, send = d->method == BTRFS_METHOD_SEND;
	size_t n = 0;
	int rc = 0;

	if (d->method == BTRFS_METHOD_AUTO) {
		rc = mapping_compare_run(&run->compare, TREE_FIRST, &run->joiner, d->progress,
					 &done, err);
		if (rc || done)
			return rc;
		send = few_changes(run);
	}
	if (send) {
		rc = run_send(run, &ranges, &n, err);
		run->sent = rc == 0;
		if (rc == 0)
			return emit_ranges(run, ranges, n, err);
		/* The search can do whatever the stream cannot. */
		if (rc == CAIRN_CANCELLED || d->method == BTRFS_METHOD_SEND)
			return rc;
	}
	return mapping_compare_run(&run->compare, UINT64_MAX, &run->joiner, d->progress, &done,
				   err);
}

int btrfs_delta_run(const struct btrfs_delta *delta, struct store_delta_stats *ret_stats,
		    struct cairn_err *err)
{
	cairn_cleanup(tree_source_freep) struct mapping_source *base = NULL;
	cairn_cleanup(tree_source_freep) struct mapping_source *target = NULL;
	cairn_auto_free struct run *run = cairn_alloc(sizeof(*run));
	int rc;

	if (!run)
		return cairn_err_nomem(err, "comparison");
	rc = tree_source_new(delta->base->file_fd, 0, &base, err);
	rc = rc ? rc : tree_source_new(delta->target->file_fd, 0, &target, err);
	if (rc)
		return rc;
	mapping_compare_init(&run->compare, base, delta->base->size, target, delta->target->size);
	run->delta = delta;
	run->joiner = (struct joiner){.sink = delta->sink};
	run->walked_elsewhere = 0;
	run->sent = false;
	rc = run_methods(run, err);
	rc = rc ? rc : joiner_flush(&run->joiner, err);
	ret_stats->extents_walked = mapping_compare_seen(&run->compare) + run->walked_elsewhere;
	ret_stats->method = run->sent ? "send" : "tree";
	return rc;
}
