/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <inttypes.h>

#include "backup/copy_snapshot.h"
#include "backup/select.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "repo/presence.h"
#include "repo/repo_snapshot.h"

struct copying {
	const struct cmd_backup_copy *options;
	struct repo *from;
	struct repo *to;
	struct repo_snapshot_list theirs;
	struct repo_snapshot_list ours;
	struct role_progress progress;
	uint64_t copied;
	uint64_t there;
	uint64_t bytes;
};

static void backup_copy_copying_done(struct copying *copying)
{
	repo_snapshot_list_done(&copying->theirs);
	repo_snapshot_list_done(&copying->ours);
	repo_closep(&copying->from);
	repo_closep(&copying->to);
}

static int backup_copy_one(struct copying *copying, const struct repo_snapshot *snapshot,
			   struct cairn_err *err)
{
	struct copy_result result;
	int rc = backup_copy_snapshot(copying->from, copying->to, snapshot, &copying->ours,
				      (unsigned)copying->options->repository->threads,
				      &copying->progress.hooks, &result, err);

	if (rc)
		return rc;
	copying->there += result.there;
	copying->copied += !result.there;
	copying->bytes += result.bytes;
	return 0;
}

static int copy_all(struct copying *copying, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < copying->theirs.n && !rc; i++)
		rc = backup_copy_one(copying, copying->theirs.items[i], err);
	if (!rc && copying->theirs.damaged)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "%zu backups cannot be read: %s",
				     copying->theirs.damaged, copying->theirs.damaged_text);
	return rc;
}

static int copy_named(struct copying *copying, struct cairn_err *err)
{
	int rc = 0;

	for (int i = 0; i < copying->options->n_ids && !rc; i++) {
		cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;

		rc = backup_select(copying->from,
				   &(struct backup_choice){.name = copying->options->ids[i]},
				   &snapshot, err);
		if (!rc)
			rc = backup_copy_one(copying, snapshot, err);
	}
	return rc;
}

static int open_both(struct copying *copying, struct cairn_err *err)
{
	struct role_open theirs = {
		.password = ROLE_PASSWORD_FROM, .lock = REPO_LOCK_SHARED, .reads = true};
	struct role_open ours = {.lock = REPO_LOCK_SHARED};
	uint64_t gone;
	int rc = role_repo_open(&copying->options->from, &theirs, &copying->from, err);

	if (rc)
		return cairn_err_wrap(err, "repository to copy from");
	rc = role_repo_open(copying->options->repository, &ours, &copying->to, err);
	if (!rc)
		rc = repo_load_index(copying->from, err);
	if (!rc)
		rc = repo_load_index(copying->to, err);
	if (!rc)
		rc = repo_confirm_packs(copying->to, &gone, err);
	if (!rc)
		rc = repo_snapshot_list(copying->from, &copying->theirs, err);
	return rc ? rc : repo_snapshot_list(copying->to, &copying->ours, err);
}

static int backup_copy_print(const struct copying *copying, struct cairn_err *err)
{
	char bytes[CAIRN_SIZE_TEXT_MAX];
	char count[CMD_COUNT_TEXT_MAX];
	struct cairn_json json;

	if (!role_json()) {
		if (!cmd_options.quiet)
			cmd_outf("%s copied with %s of data, %" PRIu64 " %s there\n",
				 cmd_count_text(copying->copied, "backup", count),
				 cairn_format_size(copying->bytes, bytes), copying->there,
				 copying->there == 1 ? "was" : "were");
		return 0;
	}
	role_event_begin(&json, "summary");
	cmd_json_field_u64(&json, "copied", copying->copied);
	cmd_json_field_u64(&json, "there", copying->there);
	cmd_json_field_u64(&json, "bytes_copied", copying->bytes);
	return role_event_end(&json, err);
}

int role_backup_copy(const struct cmd_backup_copy *options, struct cairn_err *err)
{
	cairn_cleanup(backup_copy_copying_done) struct copying copying = {.options = options};
	int rc;

	role_progress_begin(&copying.progress);
	rc = open_both(&copying, err);
	if (!rc)
		rc = options->n_ids > 0 ? copy_named(&copying, err) : copy_all(&copying, err);
	role_progress_end(&copying.progress);
	return rc ? rc : backup_copy_print(&copying, err);
}
