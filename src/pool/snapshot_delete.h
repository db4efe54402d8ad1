/* SPDX-License-Identifier: Apache-2.0 */

/* Turning snapshots into tombstones. The caller holds the lock of their volume. */
#ifndef CAIRN_POOL_DELETE_H
#define CAIRN_POOL_DELETE_H

#include <stdint.h>

struct cairn_err;
struct catalogue_batch;
struct pool;
struct record_snapshot;
struct record_volume;

/* Establishes the preconditions of a deletion: the snapshot is not attached,
 * and every set that needs its data is computed. */
int pool_snapshot_bury_prepare(struct pool *pool, const struct record_snapshot *record,
			       struct cairn_err *err);

/* Adds the changes to the batch that turn the snapshot into a tombstone, and
 * lists its data for cleanup. */
int pool_snapshot_bury(struct pool *pool, struct catalogue_batch *batch,
		       const struct record_volume *volume, const struct record_snapshot *record,
		       struct cairn_err *err);

#endif
