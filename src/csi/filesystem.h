/* SPDX-License-Identifier: Apache-2.0 */

/* Filesystems on volumes: detect, create, check, mount and grow. */
#ifndef CAIRN_CSI_FILESYSTEM_H
#define CAIRN_CSI_FILESYSTEM_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

#define CSI_MOUNT_OPTIONS_MAX 1024U

struct csi_mount_spec {
	const char *device;
	const char *path;
	const char *fs;  /* created on an empty device */
	bool fs_matters; /* reject a device with another filesystem than `fs` */
	bool read_only;
	char *const *flags; /* mount options from the StorageClass or volume */
	size_t n_flags;
};

/* Sets an error for a path that the caller supplied, such as "make '/a/b': ...". A caller
 * would take NOT_FOUND and ALREADY_EXISTS as statements about the volume, so these codes
 * become CAIRN_PRECONDITION. */
int csi_path_error(struct cairn_err *err, int sys_errno, const char *what, const char *path);

/* Mounts the device's filesystem at `path`, an existing directory. Creates a filesystem on
 * an empty device; checks and grows an existing one.
 *
 * CAIRN_PRECONDITION  the device holds another filesystem than asked for or
 *                     data that is not a filesystem, or is empty and to be
 *                     read only
 * CAIRN_INVALID       a mount option that is not allowed
 */
int csi_filesystem_mount(const struct csi_mount_spec *spec, struct cairn_err *err);

/* Grows the filesystem mounted at `path` to its device's size. */
int csi_filesystem_grow(const char *device, const char *path, struct cairn_err *err);

/* Bind-mounts `source` at `path`; creates the mount point, a file or directory like the
 * source. */
int csi_bind_mount(const char *source, const char *path, bool read_only, struct cairn_err *err);

/* Makes a mount read-only without affecting other mounts of its filesystem. Idempotent. */
int csi_make_read_only(const char *path, struct cairn_err *err);

/* Unmounts everything at `path` and removes it if it is an empty directory or file. A
 * missing path is not an error. CAIRN_PRECONDITION if it is in use. */
int csi_unmount_and_remove(const char *path, struct cairn_err *err);
/* The same, but keeps the directory. */
int csi_unmount(const char *path, struct cairn_err *err);

#endif
