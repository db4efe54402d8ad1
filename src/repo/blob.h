/* SPDX-License-Identifier: Apache-2.0 */

/* Blobs: the pieces that files and trees are made of.
 *
 * A blob is identified by the hash of its plain bytes, and stored once. The
 * caller's threads hash, compress and encrypt, and append to the open pack of the
 * blob's type; full packs are sent by threads of the repository. The number of
 * packs in memory is bounded: a put waits when the store is slow. To use all
 * processors, call repo_blob_put() from as many threads.
 */
#ifndef CAIRN_REPO_BLOB_H
#define CAIRN_REPO_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"

struct cairn_err;
struct repo;

enum repo_blob_type {
	REPO_BLOB_DATA,
	REPO_BLOB_TREE,
};

/* Largest blob that a reader accepts: restic's are at most 8 MiB, ours at most
 * 16; a tree of two million chunks has 134 MB. */
#define REPO_BLOB_MAX ((size_t)1 << 30)

/* Largest data blob that is stored; trees, which may be copied from other writers, may
 * be as large as readers accept. */
#define REPO_DATA_PUT_MAX ((size_t)64 << 20)

/* Stores the bytes unless they are already stored. *ret_new (may be NULL) says
 * whether this call stored them. They are durable after the next repo_flush().
 *
 * CAIRN_INVALID       n is 0 or above REPO_DATA_PUT_MAX (a tree: REPO_BLOB_MAX)
 * CAIRN_PRECONDITION  no lock, or the index was not loaded
 */
int repo_blob_put(struct repo *repo, enum repo_blob_type type, const void *data, size_t n,
		  struct repo_id *ret_id, bool *ret_new, struct cairn_err *err);

/* Blobs that are stored next to each other although other threads put blobs meanwhile: what is read
 * together later should be in one place, because a reader of every second blob gets the others, too.
 * They are kept in memory until repo_blob_batch_end(). A batch belongs to one thread at a time. */
struct repo_blob_batch;

int repo_blob_batch_new(struct repo *repo, struct repo_blob_batch **ret, struct cairn_err *err);

/* As repo_blob_put() of data. */
int repo_blob_batch_put(struct repo_blob_batch *batch, const void *data, size_t n,
			struct repo_id *ret_id, bool *ret_new, struct cairn_err *err);

/* The same for data whose hash is known. */
int repo_blob_batch_add(struct repo_blob_batch *batch, const struct repo_id *id, const void *data,
			size_t n, bool *ret_new, struct cairn_err *err);

/* Passes the blobs on. Must be called after each put, also before giving up: blobs that are not
 * passed on make the repository fail. The batch is empty then. */
int repo_blob_batch_end(struct repo_blob_batch *batch, struct cairn_err *err);

/* Accepts NULL. */
void repo_blob_batch_free(struct repo_blob_batch *batch);

/* True when the blob is stored or about to be. The index must be loaded. */
bool repo_blob_has(struct repo *repo, enum repo_blob_type type, const struct repo_id *id);

/* The plain size, from the index.
 *
 * CAIRN_NOT_FOUND  no such blob
 */
int repo_blob_size(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		   uint64_t *ret_size, struct cairn_err *err);

/* The plain size of a blob that was in a lost pack; false when nothing is known
 * about it, or it is stored. */
bool repo_blob_lost(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		    uint64_t *ret_size);

/* The plain bytes, verified; owned by the caller, freed with free().
 *
 * CAIRN_NOT_FOUND     no such blob
 * CAIRN_PRECONDITION  it was put, but not flushed yet
 * CAIRN_DATA_LOSS     it is damaged, or its pack is missing or cut short
 */
int repo_blob_get(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		  uint8_t **ret_data, size_t *ret_n, struct cairn_err *err);

/* Receives the plain bytes of ids[i], which are valid until it returns. A
 * negative return ends the reading and is returned. */
typedef int repo_blob_take_fn(void *arg, size_t i, const uint8_t *data, size_t n,
			      struct cairn_err *err);

/* Gets many data blobs with few requests: blobs that are near each other in a
 * pack are read together. `take` is called once for each index of `ids`, in the
 * order in which they are stored, in the calling thread. Ids may repeat. Pass
 * some hundreds at a time, and call it from several threads.
 *
 * Codes of repo_blob_get().
 */
int repo_blob_get_many(struct repo *repo, const struct repo_id *ids, size_t n,
		       repo_blob_take_fn *take, void *arg, struct cairn_err *err);

/* The same for the bytes of trees. */
int repo_tree_get_many(struct repo *repo, const struct repo_id *ids, size_t n,
		       repo_blob_take_fn *take, void *arg, struct cairn_err *err);

/* Destination of one blob of repo_blob_get_into(). */
struct repo_blob_room {
	uint8_t *at;
	uint64_t n; /* the size that the blob must have */
};

/* Like repo_blob_get_many(), but the bytes of ids[i] are decoded directly into
 * rooms[i]. After a failure the contents of the rooms are undefined.
 *
 * CAIRN_DATA_LOSS  also when a blob has another length than its room
 */
int repo_blob_get_into(struct repo *repo, const struct repo_id *ids,
		       const struct repo_blob_room *rooms, size_t n, struct cairn_err *err);

/* Sends the open packs, waits for all of them, and writes the index of all
 * blobs stored since the last flush. Everything put before it is then durable
 * and visible to others. Index files are also written periodically in
 * between. */
int repo_flush(struct repo *repo, struct cairn_err *err);

#endif
