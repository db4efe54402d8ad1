/* SPDX-License-Identifier: Apache-2.0 */

/* Recreates a lost or damaged record from the indexes, the related records and the
 * store.
 *
 * It assumes nothing that could lead to a wrong answer: a change set is computed
 * again if both snapshots have their data, and is lost otherwise. A volume's next
 * snapshot may be compared with any older one that has data. Unknown names become
 * "recovered-...". The damaged bytes go to the quarantine in the same commit.
 *
 * Takes the lock of the volume and then reads everything again.
 */
#ifndef CAIRN_POOL_REBUILD_H
#define CAIRN_POOL_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct catalogue_batch;
struct inventory;
struct pool;
struct record_snapshot;
struct store_ref;

enum rebuild_outcome {
	REBUILD_NOTHING, /* the record is good by now, or nothing is known of the object */
	REBUILD_DONE,
	REBUILD_DROPPED, /* neither data nor lineage is left: the record was removed */
};

struct rebuild_result {
	enum rebuild_outcome outcome;
	char text[300]; /* what was made, for a person */
};

/* `wanted`: recreate it also if only the caller refers to it; without data it
 * becomes a deleted one.
 *
 * CAIRN_ABORTED  another operation holds the volume, or committed first
 */
int pool_rebuild_volume(struct pool *pool, uint64_t bits, bool wanted, struct rebuild_result *ret,
			struct cairn_err *err);
/* `doubted`: recreate the record even if it can be read. */
int pool_rebuild_snapshot(struct pool *pool, uint64_t number, bool doubted,
			  struct rebuild_result *ret, struct cairn_err *err);

/* The volume that a snapshot without a good record belongs to, according to
 * indexes and data; false when neither shows it. */
bool pool_rebuild_volume_of(struct pool *pool, const struct inventory *inv, uint64_t number,
			    uint64_t *ret_volume);

/* --- for both files of this interface --- */

/* Whether the store has the object, and its size. */
int pool_rebuild_find_data(struct pool *pool, struct store_ref ref, bool *ret_has,
			   uint64_t *ret_size, struct cairn_err *err);

/* Makes a concurrent release of the head's data fail. */
int pool_rebuild_keep_head(struct pool *pool, struct catalogue_batch *batch,
			   const struct record_snapshot *head, struct cairn_err *err);

#endif
