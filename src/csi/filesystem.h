/* SPDX-License-Identifier: Apache-2.0 */

/* Filesystems on volumes: found, made, checked, mounted, grown. */
#ifndef CAIRN_CSI_FILESYSTEM_H
#define CAIRN_CSI_FILESYSTEM_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

#define CSI_MOUNT_OPTIONS_MAX 1024U

struct csi_mount_spec {
	const char *device;
	const char *path;
	const char *fs;  /* what is made on an empty device */
	bool fs_matters; /* another one than `fs` will not do */
	bool read_only;
	char *const *flags; /* mount options from the StorageClass or volume */
	size_t n_flags;
};

/* What the kernel says about a path of the caller's, such as "make '/a/b': ...":
 * NOT_FOUND and ALREADY_EXISTS would be read as said of the volume, so these become
 * CAIRN_PRECONDITION. */
int csi_path_error(struct cairn_err *err, int sys_errno, const char *what, const char *path);

/* Mounts the device's filesystem at `path`, an existing directory; makes one on
 * an empty device, checks and grows one that is there.
 *
 * CAIRN_PRECONDITION  the device holds another filesystem than asked for or
 *                     something that is no filesystem, or is empty and to be
 *                     read only
 * CAIRN_INVALID       a mount option that is not allowed
 */
int csi_filesystem_mount(const struct csi_mount_spec *spec, struct cairn_err *err);

/* Grows the filesystem mounted at `path` to its device's size. */
int csi_filesystem_grow(const char *device, const char *path, struct cairn_err *err);

/* Makes `path` show what is at `source` too; a file or directory of the same
 * kind, made here, is mounted over. */
int csi_bind_mount(const char *source, const char *path, bool read_only, struct cairn_err *err);

/* Makes a mount read-only, others of its filesystem staying as they are; also one
 * that is so already. */
int csi_make_read_only(const char *path, struct cairn_err *err);

/* Unmounts everything at `path` and removes it, if it is an empty directory or
 * file; not there is fine.
 * CAIRN_PRECONDITION when it is in use. */
int csi_unmount_and_remove(const char *path, struct cairn_err *err);
/* The same, but the directory stays. */
int csi_unmount(const char *path, struct cairn_err *err);

#endif
