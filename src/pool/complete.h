/* SPDX-License-Identifier: Apache-2.0 */

/* Making the change set of a snapshot that was cut.
 *
 * A pending record is the intent; whoever needs the set and can take its lock
 * makes it, so it does not matter who dies on the way.
 */
#ifndef CAIRN_POOL_COMPLETE_H
#define CAIRN_POOL_COMPLETE_H

#include <stdint.h>

struct cairn_err;
struct pool;
struct store_progress;

/* Waits for or makes the set of snapshot `number`. `held` is the volume whose
 * lock the caller holds, or LEFTOVER_NO_LOCK. */
int complete_set(struct pool *pool, uint64_t number, uint64_t held,
		 const struct store_progress *progress, struct cairn_err *err);

/* The same for a caller that gives up one of the two snapshots: where the set
 * can never be made, because data are missing or cannot be read, it is recorded
 * as lost. */
int complete_set_or_lose(struct pool *pool, uint64_t number, uint64_t held, struct cairn_err *err);

/* The same for all sets that are computed from the snapshot's data: its own, and
 * its successors'. */
int complete_family(struct pool *pool, uint64_t number, uint64_t held, struct cairn_err *err);

#endif
