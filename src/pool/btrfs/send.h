/* SPDX-License-Identifier: Apache-2.0 */

/* The changes between two read-only snapshots, from btrfs's own comparison of
 * their trees (BTRFS_IOC_SEND without file data).
 *
 * The kernel skips every subtree that both share, so the cost depends on the
 * number of changes and not on the size. This is the method for few changes in
 * very many extents.
 */
#ifndef CAIRN_POOL_BTRFS_SEND_H
#define CAIRN_POOL_BTRFS_SEND_H

#include <stddef.h>
#include <stdint.h>

#include "block/extent.h"

struct cairn_err;
struct store_progress;

/* Maximum number of ranges collected; with more, the tree search is the better
 * method. */
#define SEND_RANGES_MAX 262144U

struct send_spec {
	int base_fd;   /* root of the base's subvolume */
	int target_fd; /* root of the target's */
	const char *path;
	uint64_t target_size;
	const struct store_progress *progress; /* may be NULL */
};

/* The changed ranges of the file below the target's size, sorted and joined;
 * the part by which the target grew is not included. *ret_ranges is owned by
 * the caller; `zero` is false everywhere.
 *
 * CAIRN_UNIMPLEMENTED  the stream has a command that the decoder does not interpret
 * CAIRN_NO_SPACE       more than SEND_RANGES_MAX ranges
 * CAIRN_CANCELLED      the caller asked for it
 */
int btrfs_send_changes(const struct send_spec *spec, struct block_extent **ret_ranges,
		       size_t *ret_n, struct cairn_err *err);

#endif
