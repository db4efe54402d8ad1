/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots that are deleted by the process that cut them.
 *
 * A backup of a volume cuts a snapshot, reads it and deletes it again. A process that is
 * killed in between must not leave it for ever, and a second process must not delete the
 * snapshot of a first one that is still at work. So the names are noted in the catalogue
 * (note.h) before the cut, under a number whose lock (handle.h) the process holds: the
 * kernel drops it when the process dies, whatever the reason. A note whose lock is free
 * belongs to nobody any more, and pool_temporary_sweep() deletes what it names.
 *
 * One thread.
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

/* Cuts snapshots of these volumes (names or ids, at most POOL_GROUP_MAX) at one point in
 * time, all under the name "PREFIX-20261117T101500Z-1a2b". The last digits are by chance: of two
 * processes in one second neither may note the other's name, or a sweep would take the
 * snapshot of one that lives for that of one that was killed. `ret_snapshots` has room for
 * `n`. The pool must outlive *ret.
 *
 * Codes are those of pool_snapshot_create(). */
int pool_temporary_cut(struct pool *pool, const char *const *volumes, size_t n, const char *prefix,
		       struct pool_snapshot *ret_snapshots, struct pool_temporary **ret,
		       struct cairn_err *err);

/* Deletes snapshot `i`, which then is a tombstone, or with `keep` lets it live on. What
 * cannot be deleted now is left to a later sweep. */
int pool_temporary_release(struct pool_temporary *temporary, size_t i, bool keep,
			   struct cairn_err *err);

/* Releases those that were not, as if the process had died, but now. Accepts NULL. */
void pool_temporary_free(struct pool_temporary *temporary);
CAIRN_DEFINE_CLEANUP(struct pool_temporary, pool_temporary_free);

/* True in *ret while the process that cut this snapshot lives and has not released it. */
int pool_temporary_is_held(struct pool *pool, const struct pool_snapshot *snapshot, bool *ret,
			   struct cairn_err *err);

/* Deletes what processes that are gone have left. *ret_deleted counts the snapshots; one that
 * cannot be deleted, because it is attached, is passed over and stays noted. */
int pool_temporary_sweep(struct pool *pool, uint64_t *ret_deleted, struct cairn_err *err);

#endif
