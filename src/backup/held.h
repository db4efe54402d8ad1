/* SPDX-License-Identifier: Apache-2.0 */

/* What the target of a restore holds already.
 *
 * Either somebody says so, or the target is a volume of a pool with a snapshot
 * that has a backup: then the volume is that backup, but for what changed since
 * the snapshot, which a new snapshot tells. So a volume is taken back to a backup
 * for the price of what differs.
 */
#ifndef CAIRN_BACKUP_HELD_H
#define CAIRN_BACKUP_HELD_H

#include <stdbool.h>

#include "backup/image.h"

struct cairn_err;
struct marks;
struct pool;
struct repo;
struct zeros;

struct held {
	bool known;
	struct image image;
	struct marks *changed; /* since; or NULL */
};

/* Also a cleanup function. */
void held_done(struct held *held);

/* The backup of that name, as for backup_select(); `path` as for image_open(). */
int held_by_name(struct repo *repo, const char *name, const char *path, struct zeros *zeros,
		 struct held *ret, struct cairn_err *err);

/* ret->known is false when no snapshot of the volume has a backup here. Cuts a
 * snapshot of the volume and deletes it again. */
int held_by_volume(struct repo *repo, struct pool *pool, const char *volume, struct zeros *zeros,
		   struct held *ret, struct cairn_err *err);

#endif
