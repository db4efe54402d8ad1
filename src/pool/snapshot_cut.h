/* SPDX-License-Identifier: Apache-2.0 */

/* Cutting snapshots of several volumes at one point in time.
 *
 * Writers are either stopped, or detected:
 *   - filesystems mounted on the volumes' devices are frozen, all of them
 *     together, for the time of the cuts;
 *   - a raw device, or a backing file that a process has open for writing, can
 *     not be stopped, so it is cut twice. Each first cut comes before each second
 *     one, so if none differs from its second, there was a moment, between the
 *     two rounds, at which all volumes were as first cut. That moment is the
 *     snapshot. If one does differ, everything is cut again, a few times.
 * One raw volume alone needs no second cut where the store cuts atomically.
 */
#ifndef CAIRN_POOL_CUT_H
#define CAIRN_POOL_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/pool.h"

struct cairn_err;
struct pool;

/* Rounds before giving up on a raw volume that keeps changing. */
#define CUT_TRIES 5

struct cut_item {
	char volume_id[POOL_ID_MAX + 1];
	char snapshot_id[POOL_ID_MAX + 1];
	uint64_t size;           /* of the volume, as recorded */
	const char *volume_name; /* for messages */
};

struct cut;

/* Examines devices, mounts and open files of the volumes; the caller holds
 * their locks. `items` is borrowed; the snapshots' ids may still change. */
int pool_cut_new(struct pool *pool, const struct cut_item *items, size_t n, struct cut **ret,
		 struct cairn_err *err);
void pool_cut_free(struct cut *cut);
CAIRN_DEFINE_CLEANUP(struct cut, pool_cut_free);

/* True if the i-th volume is mounted, so that the cut will freeze it. */
bool pool_cut_freezes(const struct cut *cut, size_t i);

/* Cuts all of them, or none. The caller has listed the snapshots as leftovers,
 * as frozen ones if pool_cut_freezes() is true.
 *
 * CAIRN_ABORTED  a raw volume kept changing, or a freeze expired
 */
int pool_cut_take(struct cut *cut, struct cairn_err *err);

#endif
