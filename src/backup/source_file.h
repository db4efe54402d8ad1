/* SPDX-License-Identifier: Apache-2.0 */

/* A device or a file of this host: a logical volume, a partition, a disk image.
 *
 * Its changes are not tracked, so all of it is read (of a file, the allocated parts); chunks
 * that are already stored are not stored again. A list of changes from another tool saves the
 * reading; it is trusted.
 *
 * It must not be written during the backup, which would otherwise be inconsistent. A device
 * is opened exclusively, which the kernel refuses while it is mounted or otherwise in use,
 * and which prevents mounting it. A file that a process has open for writing is refused too,
 * and if a file was written while it was read, the backup fails.
 *
 * Limits of these checks. Files: a process that opens the file later and writes or maps it
 * changes its change time, which is compared at the end; one that had it open or mapped
 * before is detected by a read lease, if the filesystem supports leases (not NFS or FUSE) and
 * the caller owns the file or is root. Devices: programs that write to the device without
 * mounting it and without O_EXCL are not detected.
 */
#ifndef CAIRN_BACKUP_SOURCE_FILE_H
#define CAIRN_BACKUP_SOURCE_FILE_H

#include <stdbool.h>

struct backup_source;
struct cairn_err;

struct source_file_spec {
	const char *path;
	bool device;         /* a block device is expected, not a file */
	const char *name;    /* of the volume that is recorded; NULL: the absolute path */
	const char *host;    /* host to record; NULL: this one */
	const char *changes; /* file with a list of changes (change_list.h); or NULL */
	bool live;           /* allow writes during the backup */
};

/* CAIRN_NOT_FOUND     no such file
 * CAIRN_INVALID       not of the expected kind, or empty
 * CAIRN_PRECONDITION  it is in use, or holds an unfinished restore
 */
int backup_source_file(const struct source_file_spec *spec, struct backup_source **ret,
		       struct cairn_err *err);

#endif
