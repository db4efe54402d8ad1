/* SPDX-License-Identifier: Apache-2.0 */

/* The list of objects that may have to be cleaned up.
 *
 * Before something is made or removed outside the catalogue (a volume, a
 * snapshot, a set's file), its id is put on a list in the catalogue; the commit
 * that makes the change effective takes it off. A process that finds an id on
 * the list, and can take the lock of its volume or set, knows that no operation
 * is in progress there. It compares the object with its record and removes it
 * if no record refers to it. So a process may be killed at any point, and the
 * next one cleans up.
 */
#ifndef CAIRN_POOL_LEFTOVER_H
#define CAIRN_POOL_LEFTOVER_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct pool;
struct store_progress;

/* The caller holds no volume's lock. */
#define LEFTOVER_NO_LOCK UINT64_MAX

/* True in *ret if the object `name` will be cleaned up by the next process that
 * opens the pool for writing: it, or the snapshot of which it is the second
 * cut, is on the list. */
int pool_cleanup_is_listed(struct pool *pool, const char *name, bool *ret, struct cairn_err *err);

/* Puts the id on the list. */
int pool_cleanup_note(struct pool *pool, const char *id, struct cairn_err *err);

/* Settles one object and takes it off the list, under its lock. `held` is the
 * volume whose lock the caller holds. If that lock is held elsewhere, the id
 * stays listed. */
int pool_cleanup_settle(struct pool *pool, const char *id, uint64_t held, struct cairn_err *err);

/* Tries to settle the object. For use after the commit that completed an
 * operation: the operation has succeeded, and whatever cannot be cleaned up now
 * stays listed. */
void pool_cleanup_tidy(struct pool *pool, const char *id, uint64_t held);

/* Settles all listed objects on which no operation is in progress, as far as
 * possible. `progress` may be NULL; CAIRN_CANCELLED when it says so. */
int pool_cleanup_settle_all(struct pool *pool, const struct store_progress *progress,
			    struct cairn_err *err);

/* The second cut of a snapshot, see cut.c; removed with its leftovers. */
void pool_cleanup_probe_id(const char *snapshot_id, char *out, unsigned size);

#endif
