/* SPDX-License-Identifier: Apache-2.0 */

/* A file's extent map, read from btrfs's tree (BTRFS_IOC_TREE_SEARCH_V2, root
 * only).
 *
 * Several times cheaper than FIEMAP, and exact where FIEMAP is not: an item
 * names the disk extent and the offset inside it, so different pieces of a
 * compressed extent can be distinguished. Inline data is opaque.
 *
 * The tree holds only flushed data: sync the file of a live volume first.
 */
#ifndef CAIRN_POOL_BTRFS_TREE_H
#define CAIRN_POOL_BTRFS_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/store/mapping.h"

struct cairn_err;

/* `fd` is the file; the caller keeps it open and closes it.
 *
 * CAIRN_DENIED  no permission to search trees; returned by the first use
 */
int btrfs_tree_source_new(int fd, struct mapping_source **ret, struct cairn_err *err);
void btrfs_tree_source_free(struct mapping_source *source);
CAIRN_DEFINE_CLEANUP(struct mapping_source, btrfs_tree_source_free);

/* Moves to the mapping that holds `start`, or to the first one after it; the
 * last one delivered begins before `end`. */
int btrfs_tree_source_seek(struct mapping_source *source, uint64_t start, uint64_t end,
			   struct cairn_err *err);

/* Counts, up to `max`, the items of the file from `start` on that are in leaves
 * written after transaction `generation`: an upper bound for the number of
 * items changed since, which reads only those leaves. Removed items are not
 * counted. */
int btrfs_tree_count_newer(int fd, uint64_t start, uint64_t generation, uint64_t max,
			   uint64_t *ret_n, struct cairn_err *err);

#endif
