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

/* What must be so before: nobody has it attached, and every set that its data
 * is needed for is made. */
int delete_prepare(struct pool *pool, const struct record_snapshot *record, struct cairn_err *err);

/* Adds to the batch what makes it a tombstone, with its data to be looked at. */
int delete_bury(struct pool *pool, struct catalogue_batch *batch,
		const struct record_volume *volume, const struct record_snapshot *record,
		struct cairn_err *err);

#endif
