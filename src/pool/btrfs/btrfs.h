/* SPDX-License-Identifier: Apache-2.0 */

/* The back end for btrfs with root: a subvolume per volume, read-only subvolume
 * snapshots, changes by searching or comparing the filesystem's own trees.
 */
#ifndef CAIRN_POOL_BTRFS_BTRFS_H
#define CAIRN_POOL_BTRFS_BTRFS_H

#include <stdbool.h>

struct cairn_err;
struct store;

/* CAIRN_PRECONDITION  not btrfs, or no right to search its trees */
int btrfs_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err);

#endif
