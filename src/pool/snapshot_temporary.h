/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots that are deleted by the process that cut them.
 *
 * A backup of a volume cuts a snapshot, reads it and deletes it again. A process that is
 * killed in between must not leave it for ever, and a second process must not delete the
 * snapshot of one that is still running. So the names are noted in the catalogue
 * (note.h) before the cut, under a number whose lock (handle.h) the process holds: the
 * kernel drops it when the process dies, whatever the reason. A note whose lock is free
 * has lost its owner, and pool_temporary_sweep() deletes the snapshots that it names.
 *
 * For use by one thread.
 */
#ifndef CAIRN_POOL_TEMPORARY_H
#define CAIRN_POOL_TEMPORARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct pool;
struct pool_snapshot;
struct pool_temporary;

/* Cuts snapshots of these volumes (names or ids, at most POOL_GROUP_MAX) at one point in time,
 * all under the name "PREFIX-20261117T101500Z-1a2b". The last digits are random: two processes
 * in the same second must not note the same name, or a sweep after one was killed would delete
 * the snapshot of the other. `ret_snapshots` has room for `n`. The pool must outlive *ret.
 *
 * Codes are those of pool_snapshot_create(). */
int pool_temporary_cut(struct pool *pool, const char *const *volumes, size_t n, const char *prefix,
		       struct pool_snapshot *ret_snapshots, struct pool_temporary **ret,
		       struct cairn_err *err);

/* Deletes snapshot `i`, which turns it into a tombstone, or with `keep` leaves it
 * alive. A snapshot that cannot be deleted now is left to a later sweep. */
int pool_temporary_release(struct pool_temporary *temporary, size_t i, bool keep,
			   struct cairn_err *err);

/* Releases all that were not released, like a sweep after the process died, but
 * immediately. Accepts NULL. */
void pool_temporary_free(struct pool_temporary *temporary);
CAIRN_DEFINE_CLEANUP(struct pool_temporary, pool_temporary_free);

/* True in *ret while the process that cut this snapshot is alive and has not released
 * it. */
int pool_temporary_is_held(struct pool *pool, const struct pool_snapshot *snapshot, bool *ret,
			   struct cairn_err *err);

/* Deletes temporary snapshots of dead processes. *ret_deleted counts them; one that cannot be
 * deleted, because it is attached, is skipped and stays noted. */
int pool_temporary_sweep(struct pool *pool, uint64_t *ret_deleted, struct cairn_err *err);

#endif
