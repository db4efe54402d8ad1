/* SPDX-License-Identifier: Apache-2.0 */

/* One call of `cairn backup create`: what it backs up, and what came of it.
 *
 * An item is a snapshot, a volume of which one is cut for this run, a file or a device.
 * Volumes are cut together, so that their backups are of one point in time. A failure of one
 * item leaves the others alone.
 */
#ifndef CAIRN_ROLES_BACKUP_RUN_H
#define CAIRN_ROLES_BACKUP_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backup/create.h"
#include "base/err.h"
#include "pool/pool.h"

struct cmd_backup_create;
struct pool_temporary;

struct role_item {
	char name[2 * POOL_NAME_MAX + 2]; /* shown in messages: of a volume or a snapshot */
	char volume[POOL_ID_MAX + 1];     /* to be cut; "": it is there already */
	char snapshot[POOL_ID_MAX + 1];   /* what is read; "": not cut, or a device */
	struct pool_temporary *group;     /* the run's; NULL: the snapshot is not ours */
	size_t member;                    /* of the group */
	bool tried;
	struct cairn_err failure;    /* code 0: none */
	struct cairn_err unsaid;     /* the backup is made, and what was printed of it is lost */
	char *recorded;              /* as which volume; NULL: not known */
	struct backup_result result; /* without a failure */
	uint64_t elapsed_ns;
};

struct role_run {
	const struct cmd_backup_create *options;
	struct pool *pool; /* NULL: a device */
	struct role_item *items;
	size_t n;
	struct pool_temporary **groups;
	size_t n_groups;
	bool unprotected; /* the backups are made, but what they build on may be deleted */
};

void role_run_done(struct role_run *run);

/* Fills the items from the names on the command line, or with --all. Opens the pool.
 *
 * CAIRN_NOT_FOUND  no such volume or snapshot, or --all finds none
 * CAIRN_INVALID    a name is that of a volume and of a snapshot, or is there twice
 */
int role_run_find(struct role_run *run, struct cairn_err *err);

/* Deletes what runs that were killed left, then cuts the volumes. With --all, what cannot be
 * cut with the others is cut alone, and what cannot be cut at all is its failure. */
int role_run_cut(struct role_run *run, struct cairn_err *err);

/* Lets go of an item's snapshot. That it cannot be deleted is said, and is no failure: the
 * next run tries again. */
void role_run_release(struct role_run *run, struct role_item *item);

/* Writes what came of the run, which ended with `rc` and `err`, to --metrics-file, and
 * failures to --push-gateway. Returns `rc`, or that the backups are made and their metrics are not written. */
int role_metrics_run(const struct role_run *run, int rc, struct cairn_err *err);

/* Tells the push gateway, if there is one, that a backup of the volume failed. */
void role_metrics_push_failure(const struct cmd_backup_create *options, const char *volume);

#endif
