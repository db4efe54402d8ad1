/* SPDX-License-Identifier: Apache-2.0 */

/* A group snapshot of one volume, which the suite creates in the driver under test. */
#ifndef CAIRN_CONFORMANCE_GROUP_H
#define CAIRN_CONFORMANCE_GROUP_H

#include <stdbool.h>

struct cairn_err;
struct target;
struct verdict;

struct group {
	char *name;
	char *volume_id;
	char *id;     /* NULL: not created, deleted, or creation uncertain */
	char *member; /* id of its only snapshot */
	bool tried;
};

/* Cuts it and waits until it is ready to use. */
int conformance_group_create(struct target *t, struct group *g, struct cairn_err *err);
int conformance_group_remove(struct target *t, struct group *g, struct cairn_err *err);
void conformance_group_free(struct group *g);

/* Requests the group again, by CreateVolumeGroupSnapshot (`by_name`) or by
 * GetVolumeGroupSnapshot: group and member must be the same, and the member must contain
 * the group's id. */
void conformance_group_check(struct target *t, struct verdict *v, const struct group *g,
			     bool by_name);

#endif
