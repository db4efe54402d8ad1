/* SPDX-License-Identifier: Apache-2.0 */

/* Forgetting and pruning. */

#include "roles/backup/backup_common.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/metrics_file.h"
#include "backup/select.h"
#include "backup/subject.h"
#include "backup/tags.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "repo/forget.h"
#include "repo/prune.h"
#include "repo/repo_snapshot.h"

#define UNREADABLE_ID_MIN 8

struct forgetting {
	const struct cmd_backup_forget *options;
	struct repo *repo;
	struct repo_snapshot_list list;
	size_t *subjects;            /* of the list */
	struct repo_snapshot **pool; /* backups that the rules apply to */
	size_t *groups;              /* their subjects */
	size_t n;
	unsigned *reasons;          /* 0: it is forgotten */
	struct repo_id *unreadable; /* named backups whose file is damaged */
	size_t n_unreadable;
	struct role_progress progress;
};

static void forgetting_done(struct forgetting *f)
{
	free(f->subjects);
	free(f->groups);
	free(f->pool);
	free(f->reasons);
	free(f->unreadable);
	repo_snapshot_list_done(&f->list);
	role_repo_close(&f->repo);
}

/* Is it one of ours, and of the volume and the pool that were given? */
static bool backup_care_is_of(const struct cmd_backup_forget *o,
			      const struct repo_snapshot *snapshot)
{
	struct backup_record record = backup_record_of(snapshot);

	return record.ours && (!o->pool_id || backup_record_is_of_pool(&record, o->pool_id)) &&
	       (!o->volume || strcmp(o->volume, record.volume) == 0 ||
		strcmp(o->volume, record.volume_id) == 0);
}

/* Volumes of the same name in two pools, and a file and a volume of the same name, have the
 * same path, and must not count towards each other's rules: groups are subjects. */
static void backup_care_collect(struct forgetting *f)
{
	const struct cmd_backup_forget *o = f->options;

	for (size_t i = 0; i < f->list.n; i++)
		if (backup_care_is_of(o, f->list.items[i]) &&
		    backup_tag_list_match(f->list.items[i], &o->tags)) {
			f->groups[f->n] = f->subjects[i];
			f->pool[f->n++] = f->list.items[i];
		}
}

/* Selects backups of the volume, or all. Rules never apply to snapshots by other programs. */
static int select_by_rule(struct forgetting *f, struct cairn_err *err)
{
	const struct cmd_backup_forget *o = f->options;
	struct repo_policy policy = {
		.last = o->last,
		.hourly = o->hourly,
		.daily = o->daily,
		.weekly = o->weekly,
		.monthly = o->monthly,
		.yearly = o->yearly,
		.within_ms = o->within_ms,
		.tags = o->keep_tags.at,
		.n_tags = o->keep_tags.n,
		.group_host = true,
		.group_paths = true,
		.groups = f->groups,
		.now_ns = (int64_t)cairn_now_ns(),
	};

	backup_care_collect(f);
	return repo_policy_apply(&policy, f->pool, f->n, f->reasons, err);
}

static void say_mistimed(struct forgetting *f)
{
	char text[CAIRN_ERR_TEXT_MAX];
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->reasons[i] == REPO_KEEP_CLOCK;
	if (!n)
		return;
	snprintf(text, sizeof(text),
		 "%zu backup%s kept and not counted: made by a clock that was wrong, "
		 "or this one is",
		 n, n == 1 ? " is" : "s are");
	role_say(&f->progress, text);
}

static bool is_chosen(const struct forgetting *f, const struct repo_snapshot *snapshot)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->pool[i] == snapshot)
			return true;
	return false;
}

/* A damaged file tells nothing about its backup, so it is chosen only by enough of its id, and not if
 * a volume or pool was given too. */
static bool select_unreadable(struct forgetting *f, const char *name)
{
	struct repo_id *id = &f->unreadable[f->n_unreadable];

	if (strlen(name) < UNREADABLE_ID_MIN || f->options->volume || f->options->pool_id ||
	    repo_snapshot_find_name(f->repo, name, id, NULL))
		return false;
	f->n_unreadable++;
	return true;
}

static int backup_care_select_by_name(struct forgetting *f, struct cairn_err *err)
{
	for (int i = 0; i < f->options->n_ids; i++) {
		cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *named = NULL;
		struct backup_choice choice = {.name = f->options->ids[i],
					       .volume = f->options->volume,
					       .pool = f->options->pool_id,
					       .only = true};
		int rc = backup_select(f->repo, &choice, &named, err);

		if (rc == CAIRN_NOT_FOUND && f->options->ignore_missing)
			continue;
		if (rc == CAIRN_DATA_LOSS && select_unreadable(f, f->options->ids[i]))
			continue;
		if (rc)
			return cairn_err_wrap(err, "'%s'", f->options->ids[i]);
		for (size_t k = 0; k < f->list.n; k++)
			if (repo_id_equal(&f->list.items[k]->id, &named->id) &&
			    !is_chosen(f, f->list.items[k]))
				f->pool[f->n++] = f->list.items[k];
	}
	return 0;
}

/* One that was tagged by its maker may not be there at all: that is not an error. */
static void select_tagged(struct forgetting *f)
{
	for (size_t i = 0; i < f->list.n; i++) {
		struct repo_snapshot *one = f->list.items[i];

		if (backup_care_is_of(f->options, one) && !is_chosen(f, one) &&
		    backup_tag_list_match(one, &f->options->tagged))
			f->pool[f->n++] = one;
	}
}

static int backup_care_choose(struct forgetting *f, struct cairn_err *err)
{
	const struct cmd_backup_forget *o = f->options;
	bool rule = o->last || o->hourly || o->daily || o->weekly || o->monthly || o->yearly ||
		    o->within_ms || o->keep_tags.n > 0;
	size_t room;
	int rc = repo_snapshot_list(f->repo, &f->list, err);

	if (rc)
		return rc;
	room = f->list.n + (size_t)o->n_ids + 1;
	f->pool = cairn_calloc(room, sizeof(struct repo_snapshot *));
	f->reasons = cairn_calloc(room, sizeof(unsigned));
	f->groups = cairn_calloc(room, sizeof(size_t));
	f->unreadable = cairn_calloc(room, sizeof(struct repo_id));
	if (!f->pool || !f->reasons || !f->groups || !f->unreadable)
		return cairn_err_nomem(err, "list of backups");
	rc = backup_subject_number(f->list.items, f->list.n, BACKUP_SUBJECT_TO_FORGET, &f->subjects,
				   err);
	if (rc)
		return rc;
	if (o->tagged.n > 0)
		select_tagged(f);
	if (o->n_ids > 0 || o->tagged.n > 0)
		return backup_care_select_by_name(f, err);
	return rule ? select_by_rule(f, err) : 0;
}

static int backup_care_add_row(struct cmd_table *table, const struct repo_snapshot *snapshot,
			       struct cairn_err *err)
{
	struct backup_record record = backup_record_of(snapshot);
	char id[ROLE_SHORT_MAX];
	char time[CMD_TIME_TEXT_MAX];
	char name[CMD_SNAPSHOT_TEXT_MAX];
	const char *cells[] = {role_short_id(&snapshot->id, id),
			       cmd_time_text((uint64_t)snapshot->time_ns, time), name};

	snprintf(name, sizeof(name), "%s@%s", record.volume, record.snapshot);
	return cmd_table_add(table, cells, err);
}

static void print_forgotten_one(const struct forgetting *f, const struct repo_snapshot *snapshot)
{
	struct backup_record record = backup_record_of(snapshot);
	char id[REPO_ID_TEXT_MAX];
	char time[CMD_TIME_TEXT_MAX];
	struct cairn_json json;

	role_event_begin(&json, "forget");
	cmd_json_field_string(&json, "id", repo_id_format(&snapshot->id, id));
	cmd_json_field_string(&json, "time", cmd_time_text((uint64_t)snapshot->time_ns, time));
	cmd_json_field_string(&json, "volume", record.ours ? record.volume : NULL);
	cmd_json_field_string(&json, "snapshot", record.ours ? record.snapshot : NULL);
	cmd_json_field_bool(&json, "dry_run", f->options->dry_run);
	(void)role_event_end(&json, NULL);
}

static void print_unreadable(const struct forgetting *f, const struct repo_id *id)
{
	char hex[REPO_ID_TEXT_MAX];
	struct cairn_json json;

	repo_id_format(id, hex);
	if (!role_json()) {
		cmd_note("backup %.8s cannot be read%s", hex,
			 f->options->dry_run ? "" : ": its file was deleted");
		return;
	}
	role_event_begin(&json, "forget");
	cmd_json_field_string(&json, "id", hex);
	cmd_json_field_string(&json, "time", NULL);
	cmd_json_field_string(&json, "volume", NULL);
	cmd_json_field_string(&json, "snapshot", NULL);
	cmd_json_field_bool(&json, "dry_run", f->options->dry_run);
	(void)role_event_end(&json, NULL);
}

static int remove_unreadable(struct forgetting *f, uint64_t *ret_removed, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < f->n_unreadable && !rc; i++) {
		++*ret_removed;
		if (!f->options->dry_run)
			rc = repo_snapshot_remove(f->repo, &f->unreadable[i], err);
		if (!rc)
			print_unreadable(f, &f->unreadable[i]);
	}
	return rc;
}

static int remove_chosen(struct forgetting *f, uint64_t *ret_removed, struct cairn_err *err)
{
	static const struct cmd_column columns[] = {
		{.title = "FORGOTTEN"}, {.title = "TIME"}, {.title = "SNAPSHOT"}};
	struct cmd_table table;
	int rc = 0;

	cmd_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < f->n && !rc; i++) {
		if (f->reasons[i])
			continue;
		++*ret_removed;
		if (!f->options->dry_run)
			rc = repo_snapshot_remove(f->repo, &f->pool[i]->id, err);
		if (!rc && role_json())
			print_forgotten_one(f, f->pool[i]);
		else if (!rc)
			rc = backup_care_add_row(&table, f->pool[i], err);
	}
	if (!role_json() && !cmd_options.quiet)
		cmd_table_print(&table);
	cmd_table_done(&table);
	return rc;
}

/* What else a user should know of a prune. */
static void say_pruned(const struct repo_prune_stats *stats)
{
	char count[CMD_COUNT_TEXT_MAX];

	if (stats->packs_put_off)
		cmd_note("there was no room to rewrite %" PRIu64
			 " packs: prune again, now that there is more",
			 stats->packs_put_off);
	if (stats->snapshots_late)
		cmd_note("%s %s saved meanwhile by a process that had lost its lock, and "
			 "removed as incomplete",
			 cmd_count_text(stats->snapshots_late, "backup", count),
			 stats->snapshots_late == 1 ? "was" : "were");
	if (stats->files_lacking)
		cmd_note("%s %s description; the data is kept: 'cairn backup verify' names %s",
			 cmd_count_text(stats->files_lacking, "backup", count),
			 stats->files_lacking == 1 ? "has lost its" : "have lost their",
			 stats->files_lacking == 1 ? "it" : "them");
}

static int print_forgotten(const struct forgetting *f, uint64_t removed,
			   const struct repo_prune_stats *stats, struct cairn_err *err)
{
	char freed[CAIRN_SIZE_TEXT_MAX];
	char count[CMD_COUNT_TEXT_MAX];
	const char *would = f->options->dry_run ? "would be " : "";
	struct cairn_json json;

	if (!role_json()) {
		if (cmd_options.quiet)
			return 0;
		cmd_outf("%s %sforgotten", cmd_count_text(removed, "backup", count), would);
		/* In a dry run, what a prune would free is unknown, because the backups
		 * still exist. */
		if (f->options->prune && !(f->options->dry_run && removed))
			cmd_outf(", %s %sfreed", cairn_format_size(stats->bytes_freed, freed),
				 would);
		cmd_outf("\n");
		say_pruned(stats);
		return 0;
	}
	role_event_begin(&json, "summary");
	cmd_json_field_u64(&json, "forgotten", removed);
	cmd_json_field_bool(&json, "dry_run", f->options->dry_run);
	cmd_json_field_u64(&json, "bytes_freed", stats->bytes_freed);
	cmd_json_field_u64(&json, "packs_deleted", stats->packs_deleted);
	cmd_json_field_u64(&json, "packs_repacked", stats->packs_repacked);
	cmd_json_field_u64(&json, "packs_put_off", stats->packs_put_off);
	cmd_json_field_u64(&json, "removed_incomplete", stats->snapshots_late);
	cmd_json_field_u64(&json, "without_description", stats->files_lacking);
	return role_event_end(&json, err);
}

/* The volume can be restored without the description of its backup. */
static bool may_lack_description(void *arg, const struct repo_snapshot *snapshot, const char *name)
{
	struct backup_record record = backup_record_of(snapshot);

	(void)arg;
	return record.ours && strcmp(name, BACKUP_METADATA_NAME) == 0;
}

static int backup_care_forget(struct forgetting *f, struct cairn_err *err)
{
	struct repo_prune_options prune = {
		.dry_run = f->options->dry_run,
		.max_unused_tenth = REPO_PRUNE_MAX_UNUSED,
		.may_lack = may_lack_description,
		.progress = role_progress_count,
		.arg = &f->progress,
	};
	struct repo_prune_stats stats = {0};
	uint64_t removed = 0;
	int rc = backup_care_choose(f, err);

	if (!rc)
		say_mistimed(f);
	if (!rc)
		rc = remove_chosen(f, &removed, err);
	if (!rc)
		rc = remove_unreadable(f, &removed, err);
	if (!rc && f->options->prune)
		rc = repo_prune(f->repo, &prune, &stats, err);
	role_progress_end(&f->progress);
	return rc ? rc : print_forgotten(f, removed, &stats, err);
}

int role_backup_forget(const struct cmd_backup_forget *options, struct cairn_err *err)
{
	cairn_cleanup(forgetting_done) struct forgetting f = {.options = options};
	/* A dry run only reads, so it need not exclude others. */
	bool absent = false;
	struct role_open how = {.lock = options->dry_run ? REPO_LOCK_SHARED : REPO_LOCK_EXCLUSIVE,
				.reads = options->dry_run,
				.ret_absent = &absent};
	uint64_t begun = cairn_monotonic_ns();
	int rc;

	role_progress_begin(&f.progress);
	rc = role_repo_open(options->repository, &how, &f.repo, err);
	if (!rc)
		rc = backup_care_forget(&f, err);
	else if (absent && options->ignore_missing) /* no repository, no backups */
		rc = print_forgotten(&f, 0, &(struct repo_prune_stats){0}, err);
	role_progress_end(&f.progress);
	return role_metrics_task(options->metrics_file, METRICS_FORGET, begun, rc, err);
}
