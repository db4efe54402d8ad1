/* SPDX-License-Identifier: Apache-2.0 */

/* Creates snapshots: locks, numbers, cut, records. Used for the snapshots that
 * the user names and for the hidden ones from which a clone of a volume starts.
 */
#ifndef CAIRN_POOL_TAKE_H
#define CAIRN_POOL_TAKE_H

#include <stddef.h>
#include <stdint.h>

#include "pool/catalogue/record.h"

struct cairn_err;
struct pool;

struct take_item {
	struct record_volume volume; /* found by the caller; read again under the lock */
	const char *name;            /* "" creates a hidden one */
};

/* `ret` has room for `n` records. On failure nothing is left. */
int pool_snapshots_create(struct pool *pool, struct take_item *items, size_t n,
			  struct record_snapshot *ret, struct cairn_err *err);

/* Creates one and keeps its volume's lock, which the caller closes: a snapshot
 * that expires at once must not be removed before it is used. */
int pool_snapshot_create_locked(struct pool *pool, struct take_item *item,
				struct record_snapshot *ret, int *ret_lock, struct cairn_err *err);

/* Creates one for a caller that holds the volume's lock. */
int pool_snapshot_create_held(struct pool *pool, struct take_item *item,
			      struct record_snapshot *ret, struct cairn_err *err);

#endif
