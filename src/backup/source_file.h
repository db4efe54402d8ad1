/* SPDX-License-Identifier: Apache-2.0 */

/* A device or a file of this host: a logical volume, a partition, a disk image.
 *
 * Nothing tracks what changes in it, so all of it is read (of a file, what is allocated),
 * and what is stored already is not stored again. A list of changes that the caller has from
 * elsewhere saves the reading; it is believed.
 *
 * It should not be written meanwhile: a backup of it would be of no moment that ever was. A
 * device is opened exclusively, which the kernel refuses while it is mounted or otherwise in
 * use, and which keeps others from mounting it. A file that somebody has open for writing
 * is refused too, and one that was written while it was read makes no backup.
 *
 * What that proves. Of a file: whoever opens it later, and writes or maps it, gives it a time
 * of change that is compared at the end; whoever had it open or mapped before is found by a
 * read lease, where the filesystem has leases (not NFS or FUSE) and the file is the caller's
 * own or the caller is root. Of a device: programs that write to it without mounting it and
 * without O_EXCL are not seen.
 */
#ifndef CAIRN_BACKUP_SOURCE_FILE_H
#define CAIRN_BACKUP_SOURCE_FILE_H

#include <stdbool.h>

struct backup_source;
struct cairn_err;

struct source_file_spec {
	const char *path;
	bool device;         /* a block device is meant, not a file */
	const char *name;    /* of the volume that is recorded; NULL: the absolute path */
	const char *host;    /* that it is of; NULL: this one */
	const char *changes; /* file with a list of changes (change_list.h); or NULL */
	bool live;           /* even if it is written meanwhile */
};

/* CAIRN_NOT_FOUND     no such file
 * CAIRN_INVALID       not of the kind that is meant, or empty
 * CAIRN_PRECONDITION  it is in use, or holds an unfinished restore
 */
int backup_source_file(const struct source_file_spec *spec, struct backup_source **ret,
		       struct cairn_err *err);

#endif
