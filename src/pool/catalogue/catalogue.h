/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue half of a pool: an ordered map from keys to small values, with
 * atomic batches.
 *
 * The pool's logic needs no more than that, so a directory pool keeps it in an
 * SQLite file and a pool in RADOS in an object's omap (catalogue_ops.h). Keys are
 * bytes, compared as bytes. Values carry their own checksum, made and checked
 * here, so a damaged value is never used.
 *
 * A batch is committed whole or not at all, also through kill -9 and power
 * loss. Readers see committed state, are never blocked by a writer and never
 * block one. A batch may state what it expects (`pool_catalogue_expect`): if another
 * process has changed one of those keys, the commit fails with CAIRN_ABORTED
 * and changes nothing.
 *
 * Thread-safe; a batch belongs to one thread.
 */
#ifndef CAIRN_POOL_CATALOGUE_H
#define CAIRN_POOL_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct catalogue;
struct catalogue_batch;

#define CATALOGUE_KEY_MAX   512U
#define CATALOGUE_SUM_LEN   8U     /* of the checksum before each stored value */
#define CATALOGUE_VALUE_MAX 65536U /* limits the memory that a damaged length can claim */

/* A borrowed run of bytes. */
struct catalogue_bytes {
	const void *data;
	size_t len;
};

/* Makes a new catalogue file in `dir`; an existing one is an error
 * (CAIRN_EXISTS). */
int pool_catalogue_create(const char *dir, struct cairn_err *err);

/* CAIRN_NOT_FOUND      no catalogue there
 * CAIRN_UNIMPLEMENTED  written by a newer version
 * CAIRN_DATA_LOSS      damaged
 * CAIRN_DENIED         no permission to read it
 * A catalogue on a read-only filesystem opens with `writable` false. */
int pool_catalogue_open(const char *dir, bool writable, struct catalogue **ret,
			struct cairn_err *err);

/* Like pool_catalogue_open(), but also opens a catalogue whose log is missing or cut
 * short, which pool_catalogue_open() refuses with CAIRN_DATA_LOSS. For checks. */
int pool_catalogue_open_lossy(const char *dir, bool writable, struct catalogue **ret,
			      struct cairn_err *err);
/* What is wrong with the log ("is missing"), or NULL. */
const char *pool_catalogue_log_fault(const struct catalogue *cat);
/* Accepts the log as it is: from now on it counts as complete. */
int pool_catalogue_accept_log(struct catalogue *cat, struct cairn_err *err);

void pool_catalogue_close(struct catalogue *cat);
CAIRN_DEFINE_CLEANUP(struct catalogue, pool_catalogue_close);

/* Returns a descriptor that may cross fork(), which an open catalogue must not.
 * While it is open, also after pool_catalogue_close(), a process that opens the catalogue
 * finds a valid index of the log and need not read the log. -1 if there is nothing
 * to hold. */
int pool_catalogue_hold(struct catalogue *cat);

/* The value of a key; *ret_data is owned by the caller and has one NUL byte
 * beyond *ret_len.
 *
 * CAIRN_NOT_FOUND  no such key
 * CAIRN_DATA_LOSS  the stored value does not match its checksum
 */
int pool_catalogue_get(struct catalogue *cat, struct catalogue_bytes key, uint8_t **ret_data,
		       size_t *ret_len, struct cairn_err *err);

/* The stored bytes of a key including the checksum, whether or not it matches:
 * for repairs. CAIRN_NOT_FOUND as above. */
int pool_catalogue_get_stored(struct catalogue *cat, struct catalogue_bytes key, uint8_t **ret_data,
			      size_t *ret_len, struct cairn_err *err);

/* Calls `fn` for each key that begins with `prefix` and is greater than `after`
 * (empty: from the start), in order, from one consistent state. A positive
 * return of `fn` ends the scan, which returns 0; a negative one is returned.
 * `fn` may use the catalogue. `damaged` is set (value empty) where the checksum
 * is wrong: the scan continues. */
int pool_catalogue_scan(struct catalogue *cat, struct catalogue_bytes prefix,
			struct catalogue_bytes after,
			int (*fn)(void *arg, struct catalogue_bytes key,
				  struct catalogue_bytes value, bool damaged,
				  struct cairn_err *err),
			void *arg, struct cairn_err *err);

/* Collects changes; nothing happens before commit. The first failure (memory,
 * limits) sticks and is returned by commit. */
int pool_catalogue_batch_new(struct catalogue *cat, struct catalogue_batch **ret,
			     struct cairn_err *err);
void pool_catalogue_batch_free(struct catalogue_batch *batch);
CAIRN_DEFINE_CLEANUP(struct catalogue_batch, pool_catalogue_batch_free);

void pool_catalogue_put(struct catalogue_batch *batch, struct catalogue_bytes key,
			struct catalogue_bytes value);
void pool_catalogue_delete(struct catalogue_batch *batch, struct catalogue_bytes key);

/* The key must still hold exactly this value (data NULL: must not exist) when
 * the batch is committed. */
void pool_catalogue_expect(struct catalogue_batch *batch, struct catalogue_bytes key,
			   struct catalogue_bytes value);

/* The same for bytes from pool_catalogue_get_stored(). */
void pool_catalogue_expect_stored(struct catalogue_batch *batch, struct catalogue_bytes key,
				  struct catalogue_bytes stored);

/* Makes the commit fail with an out-of-memory error: for a caller that could
 * not allocate a value to put. */
void pool_catalogue_batch_fail(struct catalogue_batch *batch, const char *what);

/* Adds changes that depend on the state at commit time: `fn` runs inside the
 * transaction, so no other commit can intervene. It reads with
 * pool_catalogue_batch_get() and puts, deletes and expects. So two batches that
 * increment the same counter do not make each other fail. A negative return
 * becomes the batch's result; CAIRN_ABORTED does not affect other batches of
 * the group.
 *
 * `fn` may run on another thread while the caller waits in pool_catalogue_commit(),
 * and more than once: what an earlier run added is dropped. It must use nothing
 * of the catalogue but its batch. */
typedef int catalogue_late_fn(void *arg, struct catalogue_batch *batch, struct cairn_err *err);
void pool_catalogue_batch_late(struct catalogue_batch *batch, catalogue_late_fn *fn, void *arg);

/* As pool_catalogue_get(), inside the batch's transaction. */
int pool_catalogue_batch_get(struct catalogue_batch *batch, struct catalogue_bytes key,
			     uint8_t **ret_data, size_t *ret_len, struct cairn_err *err);

enum catalogue_sync {
	CATALOGUE_DURABLE, /* durable on return, together with all earlier commits */
	CATALOGUE_ORDERED, /* survives a kill; a power cut may take it, but never
			    * without all that was committed after it */
};

/* CAIRN_ABORTED   an expectation does not hold
 * CAIRN_UNAVAILABLE  another process holds the write lock and makes no progress
 * CAIRN_NO_SPACE  the disk is full; nothing changed
 * CAIRN_PRECONDITION  opened read-only
 */
int pool_catalogue_commit(struct catalogue_batch *batch, enum catalogue_sync sync,
			  struct cairn_err *err);

/* False after a commit failed in such a way that the next process to open the
 * catalogue may find it committed. Then no object may be removed for lack of a
 * record. */
bool pool_catalogue_is_certain(struct catalogue *cat);

/* After a commit failed for lack of space: true when the next one takes its space from
 * the catalogue's own files, so that the caller should retry. False when there is none to
 * take. */
bool pool_catalogue_make_room(struct catalogue *cat);

/* Room can be made only by a process that uses the catalogue alone. With `let_go` this
 * one keeps no connection between its operations, so that others can be alone. */
void pool_catalogue_let_go(struct catalogue *cat, bool let_go);

/* Where a failed commit may leave the log in doubt, because it is the host of an image
 * that is full: makes the next commits in that way from the start, as long as no other
 * process uses the catalogue. `trim` returns blocks of the image that are free; NULL ends
 * this. */
void pool_catalogue_prefer_room(struct catalogue *cat, void (*trim)(void *arg), void *arg);

/* Checks the file's structure (not the meaning of the values); `report` is
 * called with a line for each fault. */
int pool_catalogue_check(struct catalogue *cat, void (*report)(void *arg, const char *line),
			 void *arg, struct cairn_err *err);

#endif
