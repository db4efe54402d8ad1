/* SPDX-License-Identifier: Apache-2.0 */

/* Which snapshots were cut together. A group is one note with its members' ids,
 * and a note at each member that names the group; both are written after the
 * cut, in an order that a repeated call can complete.
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

/* The group that a snapshot belongs to, or "" in `ret`. */
int csi_group_of(struct pool *pool, const char *snapshot_id, char ret[POOL_ID_MAX + 1],
		 struct cairn_err *err);

/* By its name as the caller chose it, or by its id. CAIRN_NOT_FOUND. */
int csi_group_by_name(struct pool *pool, const char *name, struct csi_group *ret,
		      struct cairn_err *err);
int csi_group_by_id(struct pool *pool, const char *id, struct csi_group *ret,
		    struct cairn_err *err);

/* Writes members, group and name. */
int csi_group_put(struct pool *pool, const char *name, const struct csi_group *group,
		  struct cairn_err *err);
/* Forgets all of it. */
int csi_group_drop(struct pool *pool, const struct csi_group *group, struct cairn_err *err);

#endif
