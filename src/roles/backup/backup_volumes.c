/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "cli/options.h"
#include "cli/pool_open.h"
#include "pool/snapshot_temporary.h"
#include "roles/backup/backup_common.h"
#include "roles/backup/backup_options.h"

#define SNAPSHOT_PREFIX "backup"

static void backup_volumes_remark(const char *text)
{
	struct role_progress none = {0};

	role_say(&none, text);
}

void role_run_done(struct role_run *run)
{
	for (size_t i = 0; i < run->n_groups; i++)
		pool_temporary_free(run->groups[i]);
	for (size_t i = 0; i < run->n; i++)
		free(run->items[i].recorded);
	free(run->groups);
	free(run->items);
	if (run->pool)
		pool_close(run->pool);
	*run = (struct role_run){0};
}

/* ---- names ------------------------------------------------------------------- */

static int add_item(struct role_run *run, const char *name, const char *recorded,
		    const char *volume, const char *snapshot, struct cairn_err *err)
{
	struct role_item *item = &run->items[run->n];

	for (size_t i = 0; i < run->n; i++)
		if (strcmp(run->items[i].volume, volume) == 0 &&
		    strcmp(run->items[i].snapshot, snapshot) == 0)
			return cairn_err_set(err, CAIRN_INVALID, "'%s' is named twice", name);
	snprintf(item->name, sizeof(item->name), "%s", name);
	snprintf(item->volume, sizeof(item->volume), "%s", volume);
	snprintf(item->snapshot, sizeof(item->snapshot), "%s", snapshot);
	item->recorded = cairn_strdup(recorded);
	if (!item->recorded)
		return cairn_err_nomem(err, "list of volumes");
	run->n++;
	return 0;
}

/* The name of a volume may contain an '@', so a name can be that of a volume or of a snapshot. */
static int add_named(struct role_run *run, const char *name, struct cairn_err *err)
{
	struct pool_snapshot snapshot;
	struct pool_volume volume;
	struct cairn_err why = {0};
	int rc_volume = pool_volume_get(run->pool, name, &volume, &why);
	bool is_volume = rc_volume == 0 && !volume.deleted;
	int rc;

	if (rc_volume && rc_volume != CAIRN_NOT_FOUND) {
		*err = why;
		return rc_volume;
	}
	rc = pool_snapshot_get(run->pool, name, &snapshot, &why);
	if (is_volume && rc == 0 && !snapshot.deleted)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is the name of a volume and of a snapshot: use the id "
				     "of the one that is meant",
				     name);
	if (is_volume)
		return add_item(run, volume.name, volume.name, volume.id, "", err);
	if (rc == CAIRN_NOT_FOUND && !strchr(name, '@'))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no volume or snapshot '%s'",
				     name);
	if (rc) {
		*err = why;
		return rc;
	}
	return add_item(run, name, snapshot.volume_name, "", snapshot.id, err);
}

static int backup_volumes_count_volume(void *arg, const struct pool_volume *volume,
				       struct cairn_err *err)
{
	size_t *n = arg;

	(void)err;
	*n += !volume->deleted;
	return 0;
}

struct adding {
	struct role_run *run;
	size_t room;
};

static int backup_volumes_add_volume(void *arg, const struct pool_volume *volume,
				     struct cairn_err *err)
{
	struct adding *adding = arg;

	/* A volume that was created after the count is left for the next run. */
	if (volume->deleted || adding->run->n == adding->room)
		return 0;
	return add_item(adding->run, volume->name, volume->name, volume->id, "", err);
}

static int backup_volumes_add_all(struct role_run *run, size_t room, struct cairn_err *err)
{
	struct adding adding = {.run = run, .room = room};
	int rc = pool_volume_list(run->pool, NULL, backup_volumes_add_volume, &adding, err);

	if (!rc && run->n == 0)
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "the pool '%s' has no volumes",
				   cmd_pool_dir());
	return rc;
}

int role_run_find(struct role_run *run, struct cairn_err *err)
{
	const struct cmd_backup_create *o = run->options;
	size_t room = (size_t)o->n_names;
	int rc = cmd_pool_open(CMD_QUERY, &run->pool, err);

	if (!rc && o->all)
		rc = pool_volume_list(run->pool, NULL, backup_volumes_count_volume, &room, err);
	if (rc)
		return rc;
	run->items = cairn_calloc(room + 1, sizeof(*run->items));
	run->groups = cairn_calloc(room + 1, sizeof(struct pool_temporary *));
	if (!run->items || !run->groups)
		return cairn_err_nomem(err, "list of volumes");
	if (o->all)
		return backup_volumes_add_all(run, room, err);
	for (int i = 0; i < o->n_names && !rc; i++)
		rc = add_named(run, o->names[i], err);
	return rc;
}

/* ---- snapshots ----------------------------------------------------------------- */

static void backup_volumes_sweep(struct pool *pool)
{
	struct cairn_err why = {0};
	char text[CAIRN_ERR_TEXT_MAX + 128];
	uint64_t deleted = 0;

	if (pool_temporary_sweep(pool, &deleted, &why)) {
		snprintf(text, sizeof(text),
			 "snapshots of a backup that was killed are still there: %s", why.msg);
		backup_volumes_remark(text);
	}
	if (!deleted)
		return;
	snprintf(text, sizeof(text),
		 "%" PRIu64 " snapshot%s of a backup that was killed %s deleted", deleted,
		 deleted == 1 ? "" : "s", deleted == 1 ? "is" : "are");
	backup_volumes_remark(text);
}

/* Finds the next items to be cut, at most a group of them. */
static size_t collect_group(struct role_run *run, size_t *from, struct role_item **members)
{
	size_t n = 0;

	for (; *from < run->n && n < POOL_GROUP_MAX; ++*from)
		if (*run->items[*from].volume)
			members[n++] = &run->items[*from];
	return n;
}

static int backup_volumes_cut_group(struct role_run *run, struct role_item **members, size_t n,
				    struct cairn_err *err)
{
	cairn_auto_free struct pool_snapshot *made = cairn_calloc(n, sizeof(*made));
	const char *volumes[POOL_GROUP_MAX];
	struct pool_temporary *group;
	int rc;

	if (!made)
		return cairn_err_nomem(err, "snapshots");
	for (size_t i = 0; i < n; i++)
		volumes[i] = members[i]->volume;
	rc = pool_temporary_cut(run->pool, volumes, n, SNAPSHOT_PREFIX, made, &group, err);
	if (rc)
		return rc;
	run->groups[run->n_groups++] = group;
	for (size_t i = 0; i < n; i++) {
		members[i]->group = group;
		members[i]->member = i;
		memcpy(members[i]->snapshot, made[i].id, sizeof(made[i].id));
	}
	return 0;
}

/* With --all, a volume that cannot be cut does not prevent the backups of the others. */
static int cut_each(struct role_run *run, struct role_item **members, size_t n,
		    const struct cairn_err *why)
{
	char text[CAIRN_ERR_TEXT_MAX + 128];

	if (n > 1) {
		snprintf(text, sizeof(text),
			 "the volumes cannot be cut at one point in time (%s): each is cut alone",
			 why->msg);
		backup_volumes_remark(text);
	}
	for (size_t i = 0; i < n; i++) {
		struct cairn_err alone = *why;

		if (n == 1 || backup_volumes_cut_group(run, &members[i], 1, &alone))
			members[i]->failure = alone;
	}
	return 0;
}

static size_t count_volumes(const struct role_run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n; i++)
		n += *run->items[i].volume != '\0';
	return n;
}

int role_run_cut(struct role_run *run, struct cairn_err *err)
{
	struct role_item *members[POOL_GROUP_MAX];
	size_t volumes = count_volumes(run);
	size_t from = 0;
	size_t n;
	int rc = 0;

	if (volumes == 0)
		return 0;
	if (volumes > POOL_GROUP_MAX && !run->options->all)
		return cairn_err_set(err, CAIRN_INVALID,
				     "at most %u volumes can be cut at one point in time",
				     POOL_GROUP_MAX);
	backup_volumes_sweep(run->pool);
	while (!rc && (n = collect_group(run, &from, members)) > 0) {
		struct cairn_err why = {0};

		rc = backup_volumes_cut_group(run, members, n, &why);
		if (rc && run->options->all)
			rc = cut_each(run, members, n, &why);
		else if (rc)
			*err = why;
	}
	return rc;
}

void role_run_release(struct role_run *run, struct role_item *item)
{
	bool keep = run->options->keep_snapshot && !item->failure.code;
	char text[CAIRN_ERR_TEXT_MAX + sizeof(item->name) + 128];
	struct cairn_err why = {0};

	if (!item->group || !pool_temporary_release(item->group, item->member, keep, &why))
		return;
	snprintf(text, sizeof(text), "the snapshot %s of %s stays until the next backup: %s",
		 item->snapshot, item->name, why.msg);
	backup_volumes_remark(text);
}
