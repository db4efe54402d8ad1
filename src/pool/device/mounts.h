/* SPDX-License-Identifier: Apache-2.0 */

/* What is mounted, as this process sees it.
 *
 * The mount table may change at any time, so an answer is checked against the
 * live filesystem where that matters: a mount point counts only if opening it
 * reaches that very mount and not one stacked on top.
 */
#ifndef CAIRN_POOL_MOUNTS_H
#define CAIRN_POOL_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cairn_err;

/* A mount point of the filesystem on block device `device` that can be reached
 * by its path, or NULL in *ret_mount, which the caller owns. btrfs has a device
 * number of its own in the table, so the source is compared as well; of a btrfs
 * over several devices only the one named as source is found. */
int pool_mounts_find_device(dev_t device, char **ret_mount, struct cairn_err *err);

/* The number that is the same for all mounts of one filesystem. It differs
 * from st_dev on btrfs, where each subvolume has its own st_dev. */
int pool_mounts_filesystem_of(int fd, uint64_t *ret, struct cairn_err *err);

#define MOUNTS_TYPE_MAX 32

/* What is mounted at a path. */
struct mounts_at {
	bool mounted;
	bool read_only; /* this mount; others of the filesystem may not be */
	bool stopped;   /* the filesystem shut down after errors and accepts no writes */
	dev_t source;   /* 0 when the source is not a block device */
	char fs_type[MOUNTS_TYPE_MAX];
};

int pool_mounts_look(const char *path, struct mounts_at *ret, struct cairn_err *err);

/* Only the source device; 0 also when nothing is mounted there. */
int pool_mounts_source_of(const char *path, dev_t *ret, struct cairn_err *err);

/* True if `path` is a mount point; false for a missing path. A filesystem that
 * has shut down after errors is still mounted. */
int pool_mounts_is_mount_point(const char *path, bool *ret, struct cairn_err *err);

#endif
