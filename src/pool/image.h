/* SPDX-License-Identifier: Apache-2.0 */

/* A filesystem of our own inside a sparse file, for hosts whose filesystem
 * cannot share blocks: made, loop-mounted, unmounted and removed here.
 */
#ifndef CAIRN_POOL_IMAGE_H
#define CAIRN_POOL_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* Smallest image that both mkfs accept and that leaves room for data. */
#define IMAGE_SIZE_MIN (512ULL << 20)

enum image_fs {
	IMAGE_BTRFS,
	IMAGE_XFS,
};

/* What the filesystem of a directory can do, and what this process may. */
struct image_host {
	bool is_btrfs;
	bool is_xfs;
	bool can_reflink;     /* FICLONE tried in the directory and worked */
	bool can_tree_search; /* btrfs with the right to search its trees and to
			       * make and delete subvolumes */
	bool can_mount;       /* loop devices and mount(2) are allowed */
	uint64_t free_bytes;
};

int image_probe(const char *dir, struct image_host *ret, struct cairn_err *err);

/* Makes the sparse file and the filesystem in it; an existing file is refused.
 *
 * CAIRN_NOT_FOUND  mkfs is not installed; the text names the package
 */
int image_make(const char *file, enum image_fs fs, uint64_t size, struct cairn_err *err);

/* Mounts it on `mount_point` (a directory, made when absent) unless it is
 * mounted there already: safe to call at every open, also by two at once. The
 * loop device detaches itself with the last unmount.
 *
 * CAIRN_PRECONDITION   something else is mounted there
 * CAIRN_DATA_LOSS      the file holds no such filesystem
 * CAIRN_UNIMPLEMENTED  the kernel does not know it
 */
int image_mount(const char *file, enum image_fs fs, const char *mount_point, struct cairn_err *err);

/* The same. True in *ret_stopped if it was mounted and takes no writes any more:
 * an image's filesystem stops when its host has no space for a write. One that was
 * mounted read-only on purpose has not stopped. */
int image_mount_look(const char *file, enum image_fs fs, const char *mount_point, bool *ret_stopped,
		     struct cairn_err *err);

/* True if something is mounted at `path` itself. */
int image_is_mounted(const char *path, bool *ret, struct cairn_err *err);

/* Unmounts; not mounted is fine.
 *
 * CAIRN_PRECONDITION  in use
 */
int image_unmount(const char *mount_point, struct cairn_err *err);

/* The same for an image that is to be removed: what cannot be written to it, for
 * example because its host is full, does not matter. */
int image_unmount_unsynced(const char *mount_point, struct cairn_err *err);

#endif
