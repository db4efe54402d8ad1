/* SPDX-License-Identifier: Apache-2.0 */

/* A filesystem of our own inside a sparse file, for hosts whose filesystem
 * cannot share blocks: made, loop-mounted, unmounted and removed here.
 */
#ifndef CAIRN_POOL_IMAGE_H
#define CAIRN_POOL_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* Smallest image that both mkfs programs accept and that leaves room for
 * data. */
#define IMAGE_SIZE_MIN (512ULL << 20)

enum image_fs {
	IMAGE_BTRFS,
	IMAGE_XFS,
};

/* Capabilities of a directory's filesystem and of this process. */
struct image_host {
	bool is_btrfs;
	bool is_xfs;
	bool can_reflink;     /* FICLONE tried in the directory and worked */
	bool can_tree_search; /* btrfs, and permission to search its trees and to make and delete
			       * subvolumes */
	bool can_mount;       /* loop devices and mount(2) are allowed */
	uint64_t free_bytes;
};

int pool_image_probe(const char *dir, struct image_host *ret, struct cairn_err *err);

/* Creates the sparse file and the filesystem in it; an existing file is an
 * error.
 *
 * CAIRN_NOT_FOUND  mkfs is not installed; the text names the package
 */
int pool_image_make(const char *file, enum image_fs fs, uint64_t size, struct cairn_err *err);

/* Mounts it on `mount_point` (a directory, created when missing) unless it is
 * already mounted there: safe to call at every open, also concurrently. The
 * loop device detaches itself with the last unmount.
 *
 * CAIRN_PRECONDITION   something else is mounted there
 * CAIRN_DATA_LOSS      the file does not hold such a filesystem
 * CAIRN_UNIMPLEMENTED  the kernel does not support the filesystem
 */
int pool_image_mount(const char *file, enum image_fs fs, const char *mount_point,
		     struct cairn_err *err);

/* The same. *ret_stopped is true if it was mounted and no longer accepts writes:
 * an image's filesystem shuts down when its host has no space for a write. One
 * that was mounted read-only on purpose has not stopped. */
int pool_image_mount_look(const char *file, enum image_fs fs, const char *mount_point,
			  bool *ret_stopped, struct cairn_err *err);

/* Whether the filesystem that is mounted there has stopped, as above. */
bool pool_image_has_stopped(const char *mount_point);

/* True if something is mounted at `path` itself. */
int pool_image_is_mounted(const char *path, bool *ret, struct cairn_err *err);

/* Unmounts; an image that is not mounted is not an error.
 *
 * CAIRN_PRECONDITION  in use
 */
int pool_image_unmount(const char *mount_point, struct cairn_err *err);

/* The same for an image that is about to be removed: failed writes, for example
 * because its host is full, are ignored. */
int pool_image_unmount_unsynced(const char *mount_point, struct cairn_err *err);

/* The same for one that has shut down; one that another process has mounted again since stays. */
int pool_image_unmount_stopped(const char *file, const char *mount_point, struct cairn_err *err);

#endif
