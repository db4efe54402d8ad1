/* SPDX-License-Identifier: Apache-2.0 */

/* What a backup is restored to: a file, a block device, or a volume of a pool.
 *
 * A new file appears under its name only when it is whole; a new volume that
 * could not be filled is taken away again. What existed is written in place, and is
 * marked as unfinished until it is whole: a volume in the catalogue, a file or device at
 * its beginning (target_mark.h).
 */
#ifndef CAIRN_BACKUP_TARGET_H
#define CAIRN_BACKUP_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;

/* Memory, offset and length that may go to the disk without a copy. */
#define TARGET_ALIGN 4096U

struct target {
	int fd;
	int direct_fd; /* the same past the page cache; -1: cannot be had */
	bool fresh;    /* reads as zeros all over */
	bool device;   /* a block device: it has its own size */

	/* How it is finished or taken back. */
	char *partial; /* a new file's name until it is whole */
	char *path;
	struct pool *pool;
	char volume[POOL_ID_MAX + 1];
	int file_lock, lock; /* of that volume; -1: not taken */
	bool made;           /* the volume was, and is not whole */
	bool resumes;        /* it holds part of this backup already */
	bool unfinished;     /* it holds part of some backup, and part of what was there */
	char backup[POOL_RESTORING_MAX + 1];
	bool marks;         /* what existed gets a mark, which the head replaces in the end */
	uint8_t *head;      /* what belongs at the beginning; NULL: no mark is there */
	size_t head_bytes;  /* 0 without it */
	uint64_t size, end; /* of the image, and of the volume if it is larger */
	uint64_t was;       /* the size of what existed, before it is made to fit */
};

#define TARGET_NONE                                                    \
	{                                                              \
		.fd = -1, .direct_fd = -1, .file_lock = -1, .lock = -1 \
	}

struct target_spec {
	const char *to;    /* a path when it has a '/', else a volume */
	struct pool *pool; /* NULL: volumes cannot be named */
	uint64_t size;     /* of the image */
	bool overwrite;    /* what exists may be written over */

	/* The volume that the image is of; NULL: not known. An existing volume of another
	 * id or size is overwritten only with `other_volume`. */
	const char *volume_id;
	const char *volume_name;
	bool other_volume;

	/* The backup's id. What is written to is marked with it until it is whole, and an
	 * unfinished restore of the same backup is taken up without any of the flags. */
	const char *backup;
};

/* CAIRN_EXISTS        it exists, and may not be written over
 * CAIRN_PRECONDITION  it is in use, or a volume other than the image's
 * CAIRN_ABORTED       somebody else is restoring to it
 * CAIRN_RANGE         a device or file that is too small
 */
int target_open(const struct target_spec *spec, struct target *ret, struct cairn_err *err);

/* Whether what existed can hold an image of so many bytes: a file is as long, a device or
 * volume may be longer.
 *
 * CAIRN_PRECONDITION  it cannot
 */
int target_can_hold(const struct target *target, uint64_t size, struct cairn_err *err);

/* Nobody attaches a volume from target_open() on; from here on nobody snapshots,
 * grows or deletes it either, this process included. A file or device that existed is
 * marked.
 *
 * CAIRN_ABORTED    somebody else is at that, or replaced its file by a rollback
 * CAIRN_NOT_FOUND  it was deleted
 */
int target_hold(struct target *target, struct cairn_err *err);

/* Writes `n` bytes at `offset`. What is long and aligned to TARGET_ALIGN goes past
 * the page cache: a volume is larger than memory as a rule, nobody reads it soon,
 * and the last sync finds little left to do. From any number of threads. */
int target_write(const struct target *target, const void *data, size_t n, uint64_t offset,
		 struct cairn_err *err);

/* Makes `n` bytes at `offset` read as zeros: a hole where the target can have one. */
int target_zero(const struct target *target, uint64_t offset, uint64_t n, struct cairn_err *err);

/* What is read next comes from the disk: pages whose write-back failed look written
 * while they are in memory. */
int target_drop_cache(const struct target *target, struct cairn_err *err);

/* Makes what was written durable, and a new file visible.
 *
 * CAIRN_EXISTS  somebody else made a file of that name meanwhile; it is left alone
 */
int target_finish(struct target *target, struct cairn_err *err);

/* What was written so far stays, marked, and the same restore takes it up. True when
 * there is something of that kind. */
bool target_leave(struct target *target);

/* Also takes away what was made and is not finished. Also a cleanup function. */
void target_done(struct target *target);

#endif
