/* SPDX-License-Identifier: Apache-2.0 */

/* Creates, snapshots and destroys subvolumes by name in an open directory.
 *
 * btrfs changes the tree of names and roots in transactions: after a power cut a
 * transaction is either complete or absent. fsync() of the directory in which a
 * subvolume was renamed or destroyed commits the running transaction without waiting
 * for other volumes' dirty data. BTRFS_IOC_START_SYNC would do so too, but it relies
 * on a kernel thread that can miss the wakeup when it is about to sleep. All callers
 * then wait for the periodic commit, half a minute, and cannot be killed meanwhile
 * (seen with Linux 6.18).
 */
#ifndef CAIRN_POOL_BTRFS_SUBVOLUME_H
#define CAIRN_POOL_BTRFS_SUBVOLUME_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

struct subvolume_info {
	uint64_t id;
	uint64_t cut_generation; /* transaction that made it */
	bool read_only;
};

int btrfs_subvolume_create(int dir_fd, const char *name, struct cairn_err *err);

/* Snapshots the subvolume whose root is `source_fd`. Durable on return. */
int btrfs_subvolume_snapshot(int dir_fd, const char *name, int source_fd, bool read_only,
			     struct cairn_err *err);

/* Makes the subvolume whose root is `fd` read-only. */
int btrfs_subvolume_protect(int fd, struct cairn_err *err);

/* CAIRN_NOT_FOUND  no such name
 * CAIRN_INVALID    it is not a subvolume
 */
int btrfs_subvolume_destroy(int dir_fd, const char *name, struct cairn_err *err);

int btrfs_subvolume_info_get(int fd, struct subvolume_info *ret, struct cairn_err *err);

#endif
