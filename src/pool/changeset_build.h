/* SPDX-License-Identifier: Apache-2.0 */

/* Computes the change set of a snapshot that was cut.
 *
 * A pending record is the intent. Any process that needs the set and can take
 * its lock computes it, so a process that dies midway leaves no damage.
 */
#ifndef CAIRN_POOL_COMPLETE_H
#define CAIRN_POOL_COMPLETE_H

#include <stdint.h>

struct cairn_err;
struct pool;
struct store_progress;

/* Waits for the set of snapshot `number`, or computes it. `held` is the volume
 * whose lock the caller holds, or LEFTOVER_NO_LOCK. */
int pool_changeset_build(struct pool *pool, uint64_t number, uint64_t held,
			 const struct store_progress *progress, struct cairn_err *err);

/* The same for a caller that is about to delete one of the two snapshots: a set
 * that can never be computed, because data is missing or unreadable, is
 * recorded as lost. */
int pool_changeset_build_or_lose(struct pool *pool, uint64_t number, uint64_t held,
				 struct cairn_err *err);

/* The same for all sets that are computed from this snapshot's data: its own and
 * its successors'. */
int pool_changeset_build_family(struct pool *pool, uint64_t number, uint64_t held,
				struct cairn_err *err);

#endif
