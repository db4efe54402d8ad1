/* SPDX-License-Identifier: Apache-2.0 */

/* Subvolumes: made, snapshotted and destroyed by name in an open directory.
 *
 * btrfs changes the tree of names and roots in transactions: after a power cut
 * either all of one is there or none. fsync() of the directory in which a subvolume
 * was renamed or destroyed ends the one under way, without waiting for other volumes'
 * dirty data. So would BTRFS_IOC_START_SYNC, but it asks a thread of the kernel that
 * misses being woken when it is just about to sleep; then everybody waits for the
 * periodic commit, half a minute, and can not even be killed (seen with Linux 6.18).
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

int subvolume_create(int dir_fd, const char *name, struct cairn_err *err);

/* Snapshots the subvolume that `source_fd` is the root of. On disk when it
 * returns. */
int subvolume_snapshot(int dir_fd, const char *name, int source_fd, bool read_only,
		       struct cairn_err *err);

/* Makes the subvolume that `fd` is the root of read-only. */
int subvolume_protect(int fd, struct cairn_err *err);

/* CAIRN_NOT_FOUND  there is nothing of that name
 * CAIRN_INVALID    it is not a subvolume
 */
int subvolume_destroy(int dir_fd, const char *name, struct cairn_err *err);

int subvolume_info_get(int fd, struct subvolume_info *ret, struct cairn_err *err);

#endif
