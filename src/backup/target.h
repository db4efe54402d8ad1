/* SPDX-License-Identifier: Apache-2.0 */

/* The target of a restore: a file, a block device, or a volume of a pool.
 *
 * A new file appears under its name only when it is complete; a new volume that could
 * not be filled is removed again. An existing target is written in place, and is marked
 * as unfinished until it is complete: a volume in the catalogue, a file or device at its
 * beginning (target_mark.h).
 */
#ifndef CAIRN_BACKUP_TARGET_H
#define CAIRN_BACKUP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;

/* Alignment of memory, offset and length for direct I/O. */
#define TARGET_ALIGN 4096U

struct target {
	int fd;
	int direct_fd; /* the same with direct I/O; -1: not available */
	bool fresh;    /* reads as zeros all over */
	bool device;   /* a block device: it has its own size */

	/* State for finishing or undoing the restore. */
	char *partial; /* a new file's name until it is complete */
	char *path;
	struct pool *pool;
	char volume[POOL_ID_MAX + 1];
	int file_lock, lock; /* of that volume; -1: not taken */
	bool made;           /* the volume was created, and is not complete */
	bool resumes;        /* it already holds part of this backup */
	bool unfinished;     /* it holds part of some backup, and part of its old contents */
	char backup[POOL_RESTORING_MAX + 1];
	bool marks;         /* an existing target gets a mark, which the head replaces at the end */
	uint8_t *head;      /* the contents of the beginning; NULL: there is no mark */
	size_t head_bytes;  /* 0 without it */
	uint64_t size, end; /* of the image, and of the volume if it is larger */
	uint64_t was;       /* the size of an existing target, before it is resized */
};

#define TARGET_NONE                                                    \
	{                                                              \
		.fd = -1, .direct_fd = -1, .file_lock = -1, .lock = -1 \
	}

struct target_spec {
	const char *to;    /* a path when it has a '/', else a volume */
	struct pool *pool; /* NULL: volumes cannot be named */
	uint64_t size;     /* of the image */
	bool overwrite;    /* an existing target may be overwritten */

	/* The volume of the image; NULL: unknown. An existing volume of another id or
	 * size is overwritten only with `other_volume`. */
	const char *volume_id;
	const char *volume_name;
	bool other_volume;

	/* The backup's id. The target is marked with it until it is complete, and an
	 * unfinished restore of the same backup is resumed without any of the flags. */
	const char *backup;
};

/* CAIRN_EXISTS        it exists, and may not be overwritten
 * CAIRN_PRECONDITION  it is in use, or a volume other than the image's
 * CAIRN_ABORTED       another process is restoring to it
 * CAIRN_RANGE         a device or file that is too small
 */
int backup_target_open(const struct target_spec *spec, struct target *ret, struct cairn_err *err);

/* Checks whether an existing target can hold an image of that size: a file has the same
 * size, a device or volume may be larger.
 *
 * CAIRN_PRECONDITION  the image does not fit
 */
int backup_target_can_hold(const struct target *target, uint64_t size, struct cairn_err *err);

/* backup_target_open() prevents attaching a volume; this function also prevents snapshots,
 * growth and deletion of it, by this process too. An existing file or device is
 * marked.
 *
 * CAIRN_ABORTED    another process does one of these, or replaced its file by a rollback
 * CAIRN_NOT_FOUND  it was deleted
 */
int backup_target_hold(struct target *target, struct cairn_err *err);

/* Writes `n` bytes at `offset`. Long writes aligned to TARGET_ALIGN bypass the
 * page cache: a volume is usually larger than memory and is not read soon, and the
 * final sync has little left to do. From any number of threads. */
int backup_target_write(const struct target *target, const void *data, size_t n, uint64_t offset,
			struct cairn_err *err);

/* Makes `n` bytes at `offset` read as zeros: a hole if the target supports it. */
int backup_target_zero(const struct target *target, uint64_t offset, uint64_t n,
		       struct cairn_err *err);

/* Drops the page cache, so that the next read comes from the disk: pages whose
 * write-back failed look written while they are in memory. */
int backup_target_drop_cache(const struct target *target, struct cairn_err *err);

/* Makes the written data durable, and a new file visible.
 *
 * CAIRN_EXISTS  another process created a file of that name; it is left alone
 */
int backup_target_finish(struct target *target, struct cairn_err *err);

/* Keeps the data written so far, marked, so that the same restore can resume it.
 * True when there is anything to resume. */
bool backup_target_leave(struct target *target);

/* Also removes an unfinished new file or volume. Also a cleanup function. */
void backup_target_done(struct target *target);

#endif
