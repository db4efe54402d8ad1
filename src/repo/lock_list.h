/* SPDX-License-Identifier: Apache-2.0 */

/* The locks of other processes. */
#ifndef CAIRN_REPO_LOCK_LIST_H
#define CAIRN_REPO_LOCK_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_id;
struct repo_names;

/* CAIRN_ABORTED when a lock of the listing other than `own` (may be NULL) excludes one of that
 * kind. Stale locks are removed in passing. */
int repo_lock_conflict(struct repo *repo, bool exclusive, const struct repo_id *own,
		       const struct repo_names *locks, struct cairn_err *err);

/* Removes stale locks, or all. */
int repo_lock_clear(struct repo *repo, bool all, uint64_t *ret_removed, struct cairn_err *err);

#endif
