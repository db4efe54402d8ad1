/* SPDX-License-Identifier: Apache-2.0 */

/* Records which snapshots were cut together. A group is one note with its members' ids,
 * and a note at each member with the group's id; both are written after the cut, in an
 * order that a repeated call can complete.
 */
#ifndef CAIRN_CSI_GROUP_NOTE_H
#define CAIRN_CSI_GROUP_NOTE_H

#include <stddef.h>

#include "pool/pool.h"

struct cairn_err;

struct csi_group {
	char id[POOL_ID_MAX + 1];
	size_t n;
	char members[POOL_GROUP_MAX][POOL_ID_MAX + 1]; /* snapshot ids */
};

/* Returns the group of a snapshot, or "". */
int csi_group_of(struct pool *pool, const char *snapshot_id, char ret[POOL_ID_MAX + 1],
		 struct cairn_err *err);

/* Looks a group up by the name that the caller chose, or by its id. CAIRN_NOT_FOUND. */
int csi_group_by_name(struct pool *pool, const char *name, struct csi_group *ret,
		      struct cairn_err *err);
int csi_group_by_id(struct pool *pool, const char *id, struct csi_group *ret,
		    struct cairn_err *err);

/* Writes the notes of the members, the group and the name. */
int csi_group_put(struct pool *pool, const char *name, const struct csi_group *group,
		  struct cairn_err *err);
/* Removes all notes of the group. */
int csi_group_drop(struct pool *pool, const struct csi_group *group, struct cairn_err *err);

#endif
