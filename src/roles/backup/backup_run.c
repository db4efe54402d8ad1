/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_run.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "repo/protect.h"
#include "roles/backup/backup_common.h"

/* A run and the repository it writes to. */
struct running {
	struct role_run run;
	struct repo *repo;
	struct role_progress progress;
	bool early;
	uint64_t begun_ns;
};

static void backup_run_running_done(struct running *r)
{
	repo_close(r->repo);
	role_run_done(&r->run);
}

static int open_repository(struct running *r, struct cairn_err *err)
{
	struct role_open how = {.lock = REPO_LOCK_SHARED,
				.level = (int)r->run.options->compression,
				.early = r->early,
				.init_missing = r->run.options->init};

	return role_repo_open(r->run.options->repository, &how, &r->repo, err);
}

static int make_once(struct running *r, struct role_item *item, struct cairn_err *err)
{
	struct cmd_backup_create one = *r->run.options;
	int rc = 0;

	one.snapshot = *item->snapshot ? item->snapshot : NULL;
	role_progress_begin(&r->progress);
	if (!r->repo)
		rc = open_repository(r, err);
	if (!rc)
		rc = role_create(r->run.pool, r->repo, &one, &r->progress, item, err);
	role_progress_end(&r->progress);
	return rc;
}

/* Makes one backup. If another process took the repository at the same moment, tries once
 * more and waits until the lock is certain first. */
static int make_item(struct running *r, struct role_item *item)
{
	struct cairn_err why = {0};
	int rc = make_once(r, item, &why);

	item->tried = true;
	if (rc && r->early && r->repo && repo_collided(r->repo)) {
		why = (struct cairn_err){0};
		r->early = false;
		repo_close(cairn_take(r->repo));
		rc = make_once(r, item, &why);
	}
	/* After a success `why` may contain the failure of an optional step. */
	if (rc) {
		item->failure = why;
		item->failure.code = rc;
	}
	/* A failed backup leaves the open repository in an unknown state: open it again for
	 * the next item. */
	if (rc && r->repo)
		repo_close(cairn_take(r->repo));
	return rc;
}

/* ---- results -------------------------------------------------------------------- */

static bool is_many(const struct role_run *run)
{
	return run->n > 1 || run->options->all;
}

static void say_failure(const struct role_item *item)
{
	struct cairn_json json;

	if (!role_json()) {
		cmd_note("%s is not backed up: %s", item->name, item->failure.msg);
		return;
	}
	role_event_begin(&json, "failure");
	cmd_json_field_string(&json, "volume", item->recorded ? item->recorded : item->name);
	cmd_json_field_u64(&json, "code", (uint64_t)-item->failure.code);
	cmd_json_field_string(&json, "error", item->failure.msg);
	(void)role_event_end(&json, NULL);
}

static struct role_report sum_up(const struct running *r)
{
	struct role_report sums = {
		.elapsed_ms = (cairn_monotonic_ns() - r->begun_ns) / CAIRN_NS_PER_MS,
	};

	for (size_t i = 0; i < r->run.n; i++) {
		const struct role_item *item = &r->run.items[i];

		sums.failed += item->failure.code != 0;
		sums.made += item->failure.code == 0;
		sums.bytes_read += item->result.bytes_read;
		sums.bytes_stored += item->result.bytes_stored;
	}
	return sums;
}

static void backup_run_report(const struct role_run *run, const struct role_report *sums)
{
	char read[CAIRN_SIZE_TEXT_MAX];
	char stored[CAIRN_SIZE_TEXT_MAX];
	char time[CMD_DURATION_TEXT_MAX];

	if (role_json())
		role_report_event(sums);
	else if (!cmd_options.quiet && is_many(run))
		cmd_outf("%llu of %zu backups made: read %s, stored %s in %s\n",
			 (unsigned long long)sums->made, run->n,
			 cairn_format_size(sums->bytes_read, read),
			 cairn_format_size(sums->bytes_stored, stored),
			 cmd_duration_text(sums->elapsed_ms, time));
}

/* Backups whose result could not be printed are reported as an error too, because a program
 * that reads the output would miss them. */
static int check_said(const struct role_run *run, struct cairn_err *err)
{
	for (size_t i = 0; i < run->n; i++) {
		if (!run->items[i].unsaid.code)
			continue;
		*err = run->items[i].unsaid;
		return cairn_err_wrap(err, "the backup is made, what was printed of it is lost");
	}
	return 0;
}

static void say_protected(const struct repo_protection *found)
{
	char until[CMD_TIME_TEXT_MAX];
	struct cairn_json json;

	cmd_time_text((uint64_t)found->until * CAIRN_NS_PER_SEC, until);
	if (!role_json()) {
		if (!cmd_options.quiet)
			cmd_outf("nothing of it can be deleted before %s: %llu files renewed\n",
				 until, (unsigned long long)found->files);
		return;
	}
	role_event_begin(&json, "protection");
	cmd_json_field_string(&json, "until", until);
	cmd_json_field_u64(&json, "renewed", found->files);
	(void)role_event_end(&json, NULL);
}

/* Extends the protection of old files: new backups refer to them, and their protection
 * would end before that of the new files. */
static int backup_run_protect(struct running *r, const struct role_report *sums,
			      struct cairn_err *err)
{
	uint64_t days = r->run.options->repository->object_lock;
	struct repo_protection found = {0};
	int rc = 0;

	if (!days || sums->made == 0)
		return 0;
	if (!r->repo)
		rc = open_repository(r, err);
	if (!rc)
		rc = repo_protect(r->repo, days, &found, err);
	if (rc)
		return cairn_err_wrap(err,
				      "the backup is made, what it builds on is not protected");
	say_protected(&found);
	for (size_t i = 0; i < r->run.n; i++) {
		const struct role_item *item = &r->run.items[i];

		if (!item->failure.code)
			role_create_push(r->run.options,
					 item->recorded ? item->recorded : item->name,
					 &item->result, item->elapsed_ns);
	}
	return 0;
}

/* The run returns its first failure. */
static int backup_run_conclude(const struct role_run *run, const struct role_report *sums,
			       struct cairn_err *err)
{
	const struct role_item *item = run->items;

	if (sums->failed == 0)
		return check_said(run, err);
	while (!item->failure.code)
		item++;
	*err = item->failure;
	if (!is_many(run))
		return err->code;
	return cairn_err_wrap(err, "%llu of %zu backups failed; %s",
			      (unsigned long long)sums->failed, run->n, item->name);
}

/* ---- the run -------------------------------------------------------------------- */

static void make_all(struct running *r)
{
	bool interrupted = false;

	for (size_t i = 0; i < r->run.n; i++) {
		struct role_item *item = &r->run.items[i];

		if (interrupted)
			cairn_err_set(&item->failure, CAIRN_CANCELLED, "interrupted");
		else if (!item->failure.code)
			interrupted = make_item(r, item) == CAIRN_CANCELLED;
		if (item->failure.code && is_many(&r->run) && !interrupted)
			say_failure(item);
		role_run_release(&r->run, item);
	}
}

static bool backup_run_is_of_pool(const struct cmd_backup_create *o)
{
	return o->n_names > 0 || o->all;
}

static int find_items(struct role_run *run, struct cairn_err *err)
{
	const struct cmd_backup_create *o = run->options;

	if (backup_run_is_of_pool(o))
		return role_run_find(run, err);
	run->items = cairn_calloc(1, sizeof(*run->items));
	if (!run->items)
		return cairn_err_nomem(err, "backup");
	run->n = 1;
	snprintf(run->items[0].name, sizeof(run->items[0].name), "%s",
		 o->file ? o->file : o->device.device);
	return 0;
}

static int run_all(struct running *r, struct cairn_err *err)
{
	struct cairn_err why = {0};
	struct role_report sums;
	int unprotected;
	int rc = find_items(&r->run, err);

	/* Open the repository before anything is cut, so that a wrong password is found at once. */
	if (!rc)
		rc = open_repository(r, err);
	if (!rc)
		rc = role_run_cut(&r->run, err);
	if (rc)
		return rc;
	make_all(r);
	sums = sum_up(r);
	if (is_many(&r->run) || *r->run.items[0].volume)
		backup_run_report(&r->run, &sums);
	unprotected = backup_run_protect(r, &sums, &why);
	r->run.unprotected = unprotected != 0;
	rc = backup_run_conclude(&r->run, &sums, err);
	if (!rc && unprotected)
		*err = why;
	else if (unprotected)
		cmd_note("%s", why.msg);
	return rc ? rc : unprotected;
}

int role_backup_create(const struct cmd_backup_create *options, struct cairn_err *err)
{
	cairn_cleanup(backup_run_running_done) struct running r = {
		.run = {.options = options}, .early = true, .begun_ns = cairn_monotonic_ns()};

	int rc;

	cmd_catch_interrupts();
	rc = run_all(&r, err);
	return role_metrics_run(&r.run, rc, err);
}
