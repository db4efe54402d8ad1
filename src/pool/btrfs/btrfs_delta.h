/* SPDX-License-Identifier: Apache-2.0 */

/* Comparing two snapshots by the cheaper of two methods.
 *
 * Searching both trees costs a little for every extent; the send stream costs
 * more for every change, but nothing for shared subtrees. So the comparison
 * starts with the search. If that has not finished after a budget of extents, it
 * counts (up to a bound) the leaves written since the base was cut; if they are
 * few, it uses the send stream to find the ranges of the remainder to search.
 * docs/decisions has the measurements.
 */
#ifndef CAIRN_POOL_BTRFS_DELTA_H
#define CAIRN_POOL_BTRFS_DELTA_H

#include <stdbool.h>
#include <stdint.h>

#include "block/extent.h"

struct cairn_err;
struct store;
struct store_delta_stats;
struct store_progress;

enum btrfs_method {
	BTRFS_METHOD_AUTO,
	BTRFS_METHOD_TREE,
	BTRFS_METHOD_SEND, /* from the first byte on; its failures are returned */
};

struct btrfs_side {
	int subvolume_fd;
	int file_fd;
	uint64_t size;
};

struct btrfs_delta {
	const struct btrfs_side *base;
	const struct btrfs_side *target;
	const char *path; /* of the file in both subvolumes */
	enum btrfs_method method;
	struct block_sink sink;
	const struct store_progress *progress; /* may be NULL */
};

int btrfs_delta_run(const struct btrfs_delta *delta, struct store_delta_stats *ret_stats,
		    struct cairn_err *err);

/* pool_store_delta() of an open btrfs store with an explicit method; for tests and
 * measurements. */
int btrfs_store_delta(struct store *store, enum btrfs_method method, const char *base_id,
		      const char *target_id, struct block_sink sink,
		      struct store_delta_stats *ret_stats, struct cairn_err *err);

#endif
