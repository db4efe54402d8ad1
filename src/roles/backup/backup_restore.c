/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <string.h>

#include "backup/backup_record.h"
#include "backup/changed_bitmap.h"
#include "backup/restore.h"
#include "backup/restore_base.h"
#include "backup/select.h"
#include "backup/target.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"
#include "repo/repo_snapshot.h"
#include "roles/backup/backup_image.h"

struct restoring {
	const struct cmd_backup_restore *options;
	struct role_backup_image from;
	struct pool *pool;
	struct held held;
	struct target target;
	struct restore_result result;
	struct role_progress progress;
};

static void backup_restore_restoring_done(struct restoring *r)
{
	backup_target_done(&r->target);
	backup_restore_base_done(&r->held);
	role_backup_image_done(&r->from);
	pool_closep(&r->pool);
}

static int backup_restore_load(struct restoring *r, bool early, struct cairn_err *err)
{
	struct role_open how = {.lock = REPO_LOCK_SHARED, .early = early, .reads = true};
	struct backup_choice choice = {.name = r->options->id,
				       .volume = r->options->volume,
				       .host = r->options->host,
				       .pool = r->options->pool_id};
	int rc = role_backup_image_find(&r->from, r->options->repository, &how, &choice, err);

	if (!rc)
		rc = role_backup_image_load(&r->from, r->options->path, err);
	if (!rc && !r->options->path)
		rc = backup_image_check(&r->from.image, err);
	return rc;
}

/* Existing targets, and volumes, which other processes see, are not modified before the
 * lock is certain. A new file gets its name only when it is complete, so it may be filled
 * meanwhile. */
static int open_target(struct restoring *r, const struct target_spec *to, struct cairn_err *err)
{
	int rc = r->pool ? repo_settle(r->from.repo, err) : 0;

	if (!rc)
		rc = backup_target_open(to, &r->target, err);
	return !rc && !r->target.partial ? repo_settle(r->from.repo, err) : rc;
}

/* Loads the base that --base names. Fails if the target's size shows that it cannot hold
 * the base. */
static int backup_restore_find_base(struct restoring *r, struct cairn_err *err)
{
	int rc = backup_restore_base_by_name(r->from.repo, r->options->base, r->options->path,
					     r->from.zeros, &r->held, err);

	if (!rc)
		rc = backup_target_can_hold(&r->target, r->held.image.size, err);
	return rc ? cairn_err_wrap(err, "--base") : 0;
}

/* Finds out which data the target already holds: from --base, or from the snapshots of a volume. */
static int find_held(struct restoring *r, struct cairn_err *err)
{
	if (r->target.fresh)
		return 0;
	if (r->options->base)
		return backup_restore_find_base(r, err);
	if (!r->pool)
		return 0;
	return backup_restore_base_by_volume(r->from.repo, r->pool, r->options->to, r->from.zeros,
					     &r->held, err);
}

static int restore_image(struct restoring *r, struct cairn_err *err)
{
	char id[REPO_ID_TEXT_MAX];
	struct target_spec to = {
		.to = r->options->to,
		.pool = r->pool,
		.size = r->from.image.map.size,
		.overwrite = r->options->overwrite,
		.volume_id = r->from.image.metadata.volume_id,
		.volume_name = r->from.image.metadata.volume_name,
		.other_volume = r->options->other_volume,
		.backup = id,
	};
	struct restore_spec spec = {
		.map = &r->from.image.map,
		.threads = (unsigned)r->options->repository->threads,
		.progress = &r->progress.hooks,
	};
	int rc;

	repo_id_format(&r->from.snapshot->id, id);
	rc = open_target(r, &to, err);
	/* The target of an unfinished restore holds a mixture, whatever --base says. */
	if (!rc && !r->target.unfinished)
		rc = find_held(r, err);
	if (!rc)
		rc = backup_target_hold(&r->target, err);
	if (rc)
		return rc;
	if (r->held.known) {
		spec.held = &r->held.image.map;
		spec.changed = r->held.changed;
	}
	rc = backup_restore_write(r->from.repo, &r->target, &spec, &r->result, err);
	if (!rc && r->options->verify)
		rc = backup_restore_verify(&r->target, &r->from.image.map, spec.threads,
					   spec.progress, err);
	if (!rc)
		rc = repo_settle(r->from.repo, err);
	return rc ? rc : backup_target_finish(&r->target, err);
}

static int load_and_restore(struct restoring *r, bool early, struct cairn_err *err)
{
	int rc = backup_restore_load(r, early, err);

	return rc ? rc : restore_image(r, err);
}

/* True if the failure may be caused by a process that deleted data before it saw our lock.
 * An unavailable store is not such a failure: the data restored so far is kept then. */
static bool backup_restore_collided(const struct restoring *r, int rc)
{
	return rc && rc != CAIRN_CANCELLED && rc != CAIRN_UNAVAILABLE && r->from.repo &&
	       (repo_settle(r->from.repo, NULL) || repo_collided(r->from.repo));
}

/* Restores; starts over once if another process took the repository at the same moment. */
static int restore_surely(struct restoring *r, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = load_and_restore(r, true, &why);

	if (backup_restore_collided(r, rc)) {
		backup_target_done(&r->target);
		r->target = (struct target)TARGET_NONE;
		backup_restore_base_done(&r->held);
		role_backup_image_done(&r->from);
		why = (struct cairn_err){0};
		rc = load_and_restore(r, false, &why);
	}
	if (rc && err)
		*err = why;
	return rc;
}

/* Prints what was restored, from what. */
static void print_subject(const struct restoring *r, const char *id)
{
	const struct repo_snapshot *snapshot = r->from.snapshot;
	struct backup_record record = backup_record_of(snapshot);
	char time[CMD_TIME_TEXT_MAX];

	cmd_outf("restored %s%s%s (backup %.8s of %s) to %s%s\n",
		 r->options->path ? r->options->path
		 : record.ours    ? record.volume
				  : record.path,
		 record.ours && !r->options->path ? "@" : "",
		 record.ours && !r->options->path ? record.snapshot : "", id,
		 cmd_time_text((uint64_t)snapshot->time_ns, time),
		 r->pool && !r->options->shown ? "volume " : "",
		 r->options->shown ? r->options->shown : r->options->to);
}

static int backup_restore_print(const struct restoring *r, uint64_t elapsed_ns,
				struct cairn_err *err)
{
	char id[REPO_ID_TEXT_MAX];
	char written[CAIRN_SIZE_TEXT_MAX];
	char zeroed[CAIRN_SIZE_TEXT_MAX];
	char kept[CAIRN_SIZE_TEXT_MAX];
	struct backup_record record = backup_record_of(r->from.snapshot);
	struct cairn_json json;

	repo_id_format(&r->from.snapshot->id, id);
	if (!role_json()) {
		if (cmd_options.quiet)
			return 0;
		cmd_outf("wrote %s, %s are zeroes, %s was there%s\n",
			 cairn_format_size(r->result.bytes_written, written),
			 cairn_format_size(r->result.bytes_zeroed, zeroed),
			 cairn_format_size(r->result.bytes_kept, kept),
			 r->options->verify ? "; read back and verified" : "");
		print_subject(r, id);
		return 0;
	}
	role_event_begin(&json, "summary");
	cmd_json_field_string(&json, "id", id);
	cmd_json_field_string(&json, "volume", record.ours ? record.volume : NULL);
	cmd_json_field_string(&json, "volume_id", record.ours ? record.volume_id : NULL);
	cmd_json_field_string(&json, "pool_id", *record.pool_id ? record.pool_id : NULL);
	cmd_json_field_string(&json, "snapshot", record.ours ? record.snapshot : NULL);
	cmd_json_field_time(&json, "time", (uint64_t)r->from.snapshot->time_ns);
	cmd_json_field_string(&json, "to", r->options->to);
	cmd_json_field_u64(&json, "size_bytes", r->from.image.map.size);
	cmd_json_field_u64(&json, "bytes_written", r->result.bytes_written);
	cmd_json_field_u64(&json, "bytes_zeroed", r->result.bytes_zeroed);
	cmd_json_field_u64(&json, "bytes_kept", r->result.bytes_kept);
	cmd_json_field_bool(&json, "verified", r->options->verify);
	cmd_json_field_u64(&json, "elapsed_ms", elapsed_ns / CAIRN_NS_PER_MS);
	return role_event_end(&json, err);
}

int role_backup_restore(const struct cmd_backup_restore *options, struct cairn_err *err)
{
	cairn_cleanup(backup_restore_restoring_done) struct restoring r = {.options = options,
									   .target = TARGET_NONE};
	uint64_t begun = cairn_monotonic_ns();
	int rc = 0;

	role_progress_begin(&r.progress);
	if (!strchr(options->to, '/'))
		rc = cmd_pool_open(CMD_WRITE, &r.pool, err);
	if (!rc)
		rc = restore_surely(&r, err);
	role_progress_end(&r.progress);
	/* Keep the partial target, so that the next attempt can continue it. */
	if ((rc == CAIRN_UNAVAILABLE || rc == CAIRN_CANCELLED) && backup_target_leave(&r.target))
		cmd_note("what was restored so far is kept; the same command continues there");
	return rc ? rc : backup_restore_print(&r, cairn_monotonic_ns() - begun, err);
}
