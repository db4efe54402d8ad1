/* SPDX-License-Identifier: Apache-2.0 */

/* The current contents of the target of a restore, as far as they are known.
 *
 * Either the user names a backup that the target holds, or the target is a volume
 * of a pool with a snapshot that has a backup: then the volume equals that backup
 * except for the changes since the snapshot, which a new snapshot shows. So
 * restoring a volume to a backup costs only the differences.
 */
#ifndef CAIRN_BACKUP_HELD_H
#define CAIRN_BACKUP_HELD_H

#include <stdbool.h>

#include "backup/image.h"

struct cairn_err;
struct changed_bitmap;
struct pool;
struct repo;
struct zeros;

struct held {
	bool known;
	struct image image;
	struct changed_bitmap *changed; /* since that backup; or NULL */
};

/* Also a cleanup function. */
void backup_restore_base_done(struct held *held);

/* Uses the backup of that name, see backup_select(); for `path` see
 * backup_image_open(). */
int backup_restore_base_by_name(struct repo *repo, const char *name, const char *path,
				struct zeros *zeros, struct held *ret, struct cairn_err *err);

/* ret->known is false when no snapshot of the volume has a backup here. Cuts a
 * snapshot of the volume and deletes it again. */
int backup_restore_base_by_volume(struct repo *repo, struct pool *pool, const char *volume,
				  struct zeros *zeros, struct held *ret, struct cairn_err *err);

#endif
