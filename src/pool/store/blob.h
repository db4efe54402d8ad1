/* SPDX-License-Identifier: Apache-2.0 */

/* Named runs of bytes beside the catalogue: where a pool keeps its change sets.
 *
 * A blob is written once, from its beginning, and read at any offset. A name that is in no
 * record is never read, so a blob needs no atomic appearance: it becomes valid with the
 * commit that names it.
 *
 * One `const struct blob_ops` for each kind of storage: files of a directory (blob_dir.h),
 * objects in RADOS (pool/rbd). Implementations embed `struct blobs`, `struct blob_writer`
 * and `struct blob_reader` as their first members. Callers use the pool_blob_*() wrappers.
 *
 * Any number of threads may use one `struct blobs`; a reader or writer belongs to one
 * thread at a time.
 */
#ifndef CAIRN_POOL_BLOB_H
#define CAIRN_POOL_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct blob_reader;
struct blob_writer;
struct blobs;
struct cairn_err;

struct blob_ops {
	const char *name;

	void (*close)(struct blobs *blobs);
	/* Starts the blob; an unfinished one of that name is overwritten. */
	int (*create)(struct blobs *blobs, const char *name, struct blob_writer **ret,
		      struct cairn_err *err);
	int (*append)(struct blob_writer *writer, const void *data, size_t n,
		      struct cairn_err *err);
	/* Makes bytes and name durable. */
	int (*finish)(struct blob_writer *writer, struct cairn_err *err);
	/* Removes the blob unless it was finished. */
	void (*writer_free)(struct blob_writer *writer);
	/* A blob of at most `whole_max` bytes is read into memory at once.
	 * CAIRN_NOT_FOUND: no blob has that name. */
	int (*open)(struct blobs *blobs, const char *name, size_t whole_max,
		    struct blob_reader **ret, struct cairn_err *err);
	/* CAIRN_DATA_LOSS when the blob has become shorter. The range is within its size. */
	int (*read)(struct blob_reader *reader, uint64_t offset, void *data, size_t n,
		    struct cairn_err *err);
	void (*reader_free)(struct blob_reader *reader);
	/* A missing one is not an error. If not `durable`, a power cut may bring it back. */
	int (*remove)(struct blobs *blobs, const char *name, bool durable, struct cairn_err *err);
	/* CAIRN_NOT_FOUND: there is none. */
	int (*check)(struct blobs *blobs, const char *name, struct cairn_err *err);
	/* CAIRN_NOT_FOUND, or CAIRN_EXISTS when the new name is taken. */
	int (*rename)(struct blobs *blobs, const char *from, const char *to, struct cairn_err *err);
	/* A negative return of `fn` ends the listing and is returned. */
	int (*list)(struct blobs *blobs,
		    int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
		    struct cairn_err *err);
};

struct blobs {
	const struct blob_ops *ops;
};

struct blob_writer {
	const struct blob_ops *ops;
};

struct blob_reader {
	const struct blob_ops *ops;
	uint64_t size;
};

void pool_blobs_close(struct blobs *blobs);
CAIRN_DEFINE_CLEANUP(struct blobs, pool_blobs_close);

int pool_blob_create(struct blobs *blobs, const char *name, struct blob_writer **ret,
		     struct cairn_err *err);
int pool_blob_append(struct blob_writer *writer, const void *data, size_t n, struct cairn_err *err);
int pool_blob_finish(struct blob_writer *writer, struct cairn_err *err);
void pool_blob_writer_free(struct blob_writer *writer);
CAIRN_DEFINE_CLEANUP(struct blob_writer, pool_blob_writer_free);

int pool_blob_open(struct blobs *blobs, const char *name, size_t whole_max,
		   struct blob_reader **ret, struct cairn_err *err);
/* CAIRN_DATA_LOSS also when the range passes the end. */
int pool_blob_read(struct blob_reader *reader, uint64_t offset, void *data, size_t n,
		   struct cairn_err *err);
void pool_blob_reader_free(struct blob_reader *reader);
CAIRN_DEFINE_CLEANUP(struct blob_reader, pool_blob_reader_free);

int pool_blob_remove(struct blobs *blobs, const char *name, bool durable, struct cairn_err *err);
int pool_blob_check(struct blobs *blobs, const char *name, struct cairn_err *err);
int pool_blob_rename(struct blobs *blobs, const char *from, const char *to, struct cairn_err *err);
int pool_blob_list(struct blobs *blobs,
		   int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
		   struct cairn_err *err);

#endif
