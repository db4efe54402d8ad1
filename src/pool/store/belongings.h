/* SPDX-License-Identifier: Apache-2.0 */

/* Which names in a pool's directories are the pool's own. pool_destroy() removes
 * these and nothing else.
 */
#ifndef CAIRN_POOL_BELONGINGS_H
#define CAIRN_POOL_BELONGINGS_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;

/* True for the id of a volume, of a snapshot, or of a snapshot's second cut. */
bool pool_belongings_is_object(const char *id);

/* True for the name of a change set's file, in quarantine or not. */
bool pool_belongings_is_set(const char *name);

/* Looks for an entry that is not the pool's in `root_fd` and in the directories
 * of volumes, snapshots and sets below it. *ret is the path of the first one
 * found, owned by the caller, or NULL. */
int pool_belongings_find_foreign(int root_fd, char **ret, struct cairn_err *err);

#endif
