/* SPDX-License-Identifier: Apache-2.0 */

/* Turning a snapshot into a tombstone. */
#ifndef CAIRN_POOL_DELETE_H
#define CAIRN_POOL_DELETE_H

struct cairn_err;
struct pool;
struct record_snapshot;

/* The caller holds the lock of the snapshot's volume. */
int delete_snapshot_locked(struct pool *pool, const struct record_snapshot *record,
			   struct cairn_err *err);

#endif
