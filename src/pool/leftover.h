/* SPDX-License-Identifier: Apache-2.0 */

/* Objects to look at again.
 *
 * Before something is made or removed outside the catalogue (a volume, a
 * snapshot, a set's file), its id is put on a list in the catalogue; the commit
 * that makes it count takes it off. Whoever finds an id on the list, and can
 * take the lock of what it belongs to, knows that nobody is at work there any
 * more, compares the object with its record and removes what no record wants.
 * So a process may be killed anywhere and the next one puts things right.
 */
#ifndef CAIRN_POOL_LEFTOVER_H
#define CAIRN_POOL_LEFTOVER_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct pool;
struct store_progress;

/* "No volume's lock is held by the caller." */
#define LEFTOVER_NO_LOCK UINT64_MAX

/* True in *ret if the object `name` will be looked at by the next who opens the
 * pool for writing: it, or what it is the second cut of, is on the list. */
int leftover_is_listed(struct pool *pool, const char *name, bool *ret, struct cairn_err *err);

/* Puts the id on the list. */
int leftover_note(struct pool *pool, const char *id, struct cairn_err *err);

/* Settles one object and takes it off the list, under its lock. `held` is the
 * volume whose lock the caller holds. Where the lock needed is another's, the id
 * stays listed. */
int leftover_settle(struct pool *pool, const char *id, uint64_t held, struct cairn_err *err);

/* Settles it if that works. For after the commit that made an operation count:
 * it has succeeded, and what cannot be cleared away now stays listed. */
void leftover_tidy(struct pool *pool, const char *id, uint64_t held);

/* Settles all that nobody is working on and that can be settled. `progress` may
 * be NULL; CAIRN_CANCELLED when it says so. */
int leftover_settle_all(struct pool *pool, const struct store_progress *progress,
			struct cairn_err *err);

/* The second cut of a snapshot, see cut.c; removed with its leftovers. */
void leftover_probe_id(const char *snapshot_id, char *out, unsigned size);

#endif
