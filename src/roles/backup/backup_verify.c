/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/metrics_file.h"
#include "backup/select.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "repo/protect.h"
#include "repo/repo_check.h"
#include "repo/repo_snapshot.h"

#define FILES_MAX    20U /* files of one backup that are printed */
#define IDS_SHOWN    16U /* ids in a command that is proposed */
#define RANGES_SHOWN 4U  /* ranges of a file that are printed as text */

struct verifying {
	struct role_progress progress;
	bool silent;                                /* during the second check, after a repair */
	struct repo_id backup;                      /* the last backup with a loss */
	uint64_t files;                             /* damaged files of that backup */
	char ids[IDS_SHOWN * (ROLE_SHORT_MAX + 1)]; /* of backups with a loss */
	uint64_t backups;                           /* number of these */
	uint64_t broken; /* those of which more than the description is lost */
	bool is_broken;  /* the last one is counted there */
};

static void say_problem(void *arg, int code, const char *text)
{
	struct verifying *verifying = arg;
	char line[CAIRN_ERR_TEXT_MAX];

	if (verifying->silent)
		return;
	snprintf(line, sizeof(line), "%s: %s", cairn_code_name(code), text);
	role_say(&verifying->progress, line);
}

static void show_progress(void *arg, const char *step, uint64_t done, uint64_t total)
{
	struct verifying *verifying = arg;

	role_progress_count(&verifying->progress, step, done, total);
}

static bool backup_verify_is_file(const struct repo_damage *damage,
				  const struct backup_record *record, const char *name)
{
	const char *slash = strrchr(damage->path, '/');

	return record->ours && slash && strcmp(slash + 1, name) == 0;
}

/* True for a segment of an image: the loss of one does not affect the others. */
static bool in_parts(const struct repo_damage *damage)
{
	return strstr(damage->path, "/" BACKUP_PARTS_NAME "/") != NULL;
}

static const char *backup_verify_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void add_ranges(struct cairn_buf *out, const struct repo_damage *damage)
{
	size_t n = damage->n_ranges < RANGES_SHOWN ? damage->n_ranges : RANGES_SHOWN;
	uint64_t more = damage->more_ranges + (damage->n_ranges - n);

	for (size_t i = 0; i < n; i++)
		cairn_buf_addf(out, "%s%" PRIu64 "-%" PRIu64, i ? ", " : ": bytes ",
			       damage->ranges[i].offset,
			       damage->ranges[i].offset + damage->ranges[i].length - 1);
	if (more)
		cairn_buf_addf(out, " and %" PRIu64 " more range%s", more,
			       backup_verify_plural(more));
	if (damage->unknown)
		cairn_buf_adds(out, damage->n_ranges ? " and more behind these" : "");
}

/* Appends what is lost, as the end of a sentence about the backup. */
static void add_loss(struct cairn_buf *out, const struct repo_damage *damage,
		     const struct backup_record *record)
{
	char lost[CAIRN_SIZE_TEXT_MAX];
	char size[CAIRN_SIZE_TEXT_MAX];

	cairn_format_size(damage->lost, lost);
	cairn_format_size(damage->size, size);
	if (damage->directory && record->ours && !in_parts(damage)) {
		cairn_buf_adds(out, "its list of chunks is lost, and with it all of the backup");
	} else if (damage->directory) {
		cairn_buf_addf(out, "what is in '%s' is lost", damage->path);
	} else if (backup_verify_is_file(damage, record, BACKUP_METADATA_NAME)) {
		cairn_buf_adds(out, "its description is lost, not the volume's data");
	} else if (!damage->lost && !damage->unknown) {
		cairn_buf_addf(out, "'%s' has %" PRIu64 " bytes, its chunks have %" PRIu64,
			       damage->path, damage->size, damage->content);
	} else {
		cairn_buf_addf(out, "%s of %s", lost, size);
		if (!backup_verify_is_file(damage, record, BACKUP_IMAGE_NAME))
			cairn_buf_addf(out, " of '%s'", damage->path);
		cairn_buf_adds(out, " are lost");
		add_ranges(out, damage);
	}
}

static void print_damage_json(const struct repo_damage *damage, const struct backup_record *record)
{
	char id[REPO_ID_TEXT_MAX];
	struct cairn_json json;

	role_event_begin(&json, "damage");
	cmd_json_field_string(&json, "id", repo_id_format(&damage->snapshot->id, id));
	cmd_json_field_string(&json, "volume", record->ours ? record->volume : NULL);
	cmd_json_field_string(&json, "snapshot", record->ours ? record->snapshot : NULL);
	cmd_json_field_string(&json, "path", damage->path);
	cmd_json_field_bool(&json, "directory", damage->directory);
	cmd_json_field_u64(&json, "size_bytes", damage->size);
	cmd_json_field_u64(&json, "bytes_lost", damage->lost);
	cairn_json_key(&json, "ranges");
	cairn_json_array_begin(&json);
	for (size_t i = 0; i < damage->n_ranges; i++) {
		cairn_json_object_begin(&json);
		cmd_json_field_u64(&json, "byte_offset", damage->ranges[i].offset);
		cmd_json_field_u64(&json, "size_bytes", damage->ranges[i].length);
		cairn_json_object_end(&json);
	}
	cairn_json_array_end(&json);
	cmd_json_field_u64(&json, "more_ranges", damage->more_ranges);
	cmd_json_field_bool(&json, "ranges_unknown", damage->unknown);
	(void)role_event_end(&json, NULL);
}

/* Keeps the ids of damaged backups for the command that removes them. */
static void keep_id(struct verifying *verifying, const char *id)
{
	size_t used = strlen(verifying->ids);

	if (verifying->backups++ < IDS_SHOWN)
		snprintf(verifying->ids + used, sizeof(verifying->ids) - used, " %s", id);
}

/* Says what a user can do about the loss. */
static void say_way_out(const struct verifying *verifying, bool repaired)
{
	if (verifying->backups == 0 || role_json())
		return;
	if (verifying->broken == 0)
		cmd_note("a prune keeps the data of these backups; their descriptions stay lost");
	else if (repaired)
		cmd_note(
			"a new backup of the same volumes ('cairn backup create') stores again what "
			"they still have, which makes old backups whole");
	else
		cmd_note(
			"'cairn backup verify --repair' and then 'cairn backup create' store again "
			"what the volumes still have, which makes old backups whole");
	cmd_note("to give up what stays lost: cairn backup forget%s%s --prune", verifying->ids,
		 verifying->backups > IDS_SHOWN ? " ..." : "");
}

/* Counts the backup to which the damage belongs. */
static void count_damage(struct verifying *verifying, const struct repo_damage *damage,
			 const struct backup_record *record)
{
	char id[ROLE_SHORT_MAX];

	if (!repo_id_equal(&verifying->backup, &damage->snapshot->id)) {
		verifying->files = 0;
		verifying->is_broken = false;
		keep_id(verifying, role_short_id(&damage->snapshot->id, id));
	}
	verifying->backup = damage->snapshot->id;
	if (verifying->is_broken ||
	    (!damage->directory && backup_verify_is_file(damage, record, BACKUP_METADATA_NAME)))
		return;
	verifying->is_broken = true;
	verifying->broken++;
}

static void say_damage(void *arg, const struct repo_damage *damage)
{
	struct verifying *verifying = arg;
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(1U << 16);
	struct backup_record record = backup_record_of(damage->snapshot);
	char id[ROLE_SHORT_MAX];

	if (verifying->silent)
		return;
	count_damage(verifying, damage, &record);
	if (role_json()) {
		print_damage_json(damage, &record);
		return;
	}
	if (++verifying->files > FILES_MAX + 1)
		return;
	cairn_buf_addf(&text, "backup %s", role_short_id(&damage->snapshot->id, id));
	if (record.ours)
		cairn_buf_addf(&text, " (%s@%s)", record.volume, record.snapshot);
	cairn_buf_adds(&text, ": ");
	if (verifying->files > FILES_MAX)
		cairn_buf_adds(&text, "and more files");
	else
		add_loss(&text, damage, &record);
	cairn_buf_addc(&text, '\0');
	if (!cairn_buf_failed(&text))
		role_say(&verifying->progress, (const char *)text.data);
}

static int print_verified(const struct verifying *verifying, const struct repo_check_stats *stats,
			  uint64_t left, struct cairn_err *err)
{
	char read[CAIRN_SIZE_TEXT_MAX];
	struct cairn_json json;

	if (!role_json()) {
		if (!cmd_options.quiet)
			cmd_outf("%" PRIu64 " backup%s, %" PRIu64 " pack%s, %" PRIu64
				 " chunk%s, %s read: %" PRIu64 " fault%s\n",
				 stats->snapshots, backup_verify_plural(stats->snapshots),
				 stats->packs, backup_verify_plural(stats->packs), stats->blobs,
				 backup_verify_plural(stats->blobs),
				 cairn_format_size(stats->bytes_read, read), stats->problems,
				 backup_verify_plural(stats->problems));
		return 0;
	}
	role_event_begin(&json, "summary");
	cmd_json_field_u64(&json, "faults", stats->problems);
	cmd_json_field_u64(&json, "faults_left", left);
	cmd_json_field_u64(&json, "backups", stats->snapshots);
	cmd_json_field_u64(&json, "backups_damaged", stats->snapshots_damaged);
	cmd_json_field_u64(&json, "backups_without_description",
			   verifying->backups - verifying->broken);
	cmd_json_field_u64(&json, "packs", stats->packs);
	cmd_json_field_u64(&json, "packs_unknown", stats->packs_unknown);
	cmd_json_field_u64(&json, "packs_dropped", stats->packs_dropped);
	cmd_json_field_u64(&json, "chunks", stats->blobs);
	cmd_json_field_u64(&json, "chunks_saved", stats->blobs_saved);
	cmd_json_field_u64(&json, "chunks_lost", stats->blobs_lost);
	cmd_json_field_u64(&json, "bytes_read", stats->bytes_read);
	return role_event_end(&json, err);
}

/* Packs that no index named and whose bytes were not whole. */
static void say_salvaged(struct role_progress *progress, const struct repo_repair_stats *stats)
{
	char text[CAIRN_ERR_TEXT_MAX];

	if (stats->packs_damaged) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " damaged pack%s in no index: %" PRIu64
			 " chunk%s stored again, %" PRIu64 " lost",
			 stats->packs_damaged, backup_verify_plural(stats->packs_damaged),
			 stats->blobs_saved, backup_verify_plural(stats->blobs_saved),
			 stats->blobs_lost);
		role_say(progress, text);
	}
	if (stats->packs_unreadable) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " pack%s in no index cannot be read at all; a prune deletes %s",
			 stats->packs_unreadable, backup_verify_plural(stats->packs_unreadable),
			 stats->packs_unreadable == 1 ? "it" : "them");
		role_say(progress, text);
	}
}

static int repair_index(struct repo *repo, struct role_progress *progress, struct cairn_err *err)
{
	struct repo_repair_stats stats = {0};
	char text[CAIRN_ERR_TEXT_MAX];
	int rc = repo_repair_index(repo, &stats, err);

	if (rc)
		return rc;
	if (stats.files || stats.packs) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " damaged index file%s removed, %" PRIu64
			 " pack%s indexed again",
			 stats.files, backup_verify_plural(stats.files), stats.packs,
			 backup_verify_plural(stats.packs));
		role_say(progress, text);
	}
	say_salvaged(progress, &stats);
	return 0;
}

static void say_repaired(struct verifying *verifying, const struct repo_check_stats *stats)
{
	char text[CAIRN_ERR_TEXT_MAX];

	if (!stats->packs_dropped)
		return;
	snprintf(text, sizeof(text),
		 "%" PRIu64 " pack%s removed from the index: %" PRIu64
		 " chunk%s stored again, %" PRIu64
		 " lost; the next backup stores those that its volume still has",
		 stats->packs_dropped, backup_verify_plural(stats->packs_dropped),
		 stats->blobs_saved, backup_verify_plural(stats->blobs_saved), stats->blobs_lost);
	role_say(&verifying->progress, text);
}

/* Counts the problems that are left after a repair. */
static int backup_verify_look_again(struct repo *repo, struct verifying *verifying,
				    const struct repo_check_options *how, uint64_t *ret_left,
				    struct cairn_err *err)
{
	struct repo_check_options again = *how;
	struct repo_check_stats stats = {0};
	int rc;

	again.read_data = again.repair = false;
	verifying->silent = true;
	rc = repo_check(repo, &again, &stats, err);
	*ret_left = stats.problems;
	return rc;
}

/* The error that names the number of backups of which something is lost. */
static int say_lost(const struct verifying *verifying, struct cairn_err *err)
{
	uint64_t broken = verifying->broken, plain = verifying->backups - broken;
	const char *which = plain == 1 ? "has lost its" : "have lost their";

	if (plain == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "%" PRIu64 " backup%s cannot be restored whole", broken,
				     backup_verify_plural(broken));
	if (broken == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "%" PRIu64
				     " backup%s %s description; the data can be restored",
				     plain, backup_verify_plural(plain), which);
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "%" PRIu64 " backup%s cannot be restored whole, and %" PRIu64
			     " %s description",
			     broken, backup_verify_plural(broken), plain, which);
}

static int verify_repository(struct repo *repo, struct verifying *verifying,
			     struct repo_check_options *check, struct cairn_err *err)
{
	struct repo_check_stats stats = {0};
	uint64_t left;
	int rc = repo_check(repo, check, &stats, err);

	left = stats.problems;
	if (!rc)
		say_repaired(verifying, &stats);
	if (!rc && stats.packs_dropped)
		rc = backup_verify_look_again(repo, verifying, check, &left, err);
	role_progress_end(&verifying->progress);
	if (!rc)
		rc = print_verified(verifying, &stats, left, err);
	if (!rc && left)
		say_way_out(verifying, check->repair);
	if (!rc && left && stats.snapshots_damaged)
		rc = say_lost(verifying, err);
	else if (!rc && left)
		rc = cairn_err_set(err, CAIRN_DATA_LOSS, "%" PRIu64 " fault%s found", left,
				   left == 1 ? " was" : "s were");
	return rc;
}

static int say_protection(struct repo *repo, struct cairn_err *err)
{
	struct repo_protection found = {0};
	char until[CMD_TIME_TEXT_MAX];
	struct cairn_json json;
	int rc = repo_protection_survey(repo, &found, err);

	if (rc)
		return rc;
	cmd_time_text((uint64_t)found.until * CAIRN_NS_PER_SEC, until);
	if (!role_json()) {
		if (!cmd_options.quiet)
			cmd_outf("%" PRIu64 " of %" PRIu64 " files are protected%s%s\n",
				 found.files - found.open, found.files,
				 found.until ? ", at least until " : "", found.until ? until : "");
		return 0;
	}
	role_event_begin(&json, "protection");
	cmd_json_field_u64(&json, "files", found.files);
	cmd_json_field_u64(&json, "unprotected", found.open);
	cmd_json_field_string(&json, "until", found.until ? until : NULL);
	return role_event_end(&json, err);
}

int role_backup_verify(const struct cmd_backup_verify *options, struct cairn_err *err)
{
	cairn_cleanup(role_repo_close) struct repo *repo = NULL;
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	struct role_open how = {.lock = options->repair ? REPO_LOCK_EXCLUSIVE : REPO_LOCK_SHARED,
				.reads = !options->repair};
	struct verifying verifying = {0};
	struct repo_check_options check = {
		.read_data = !options->quick,
		.repair = options->repair,
		.problem = say_problem,
		.damage = say_damage,
		.progress = show_progress,
		.arg = &verifying,
	};
	uint64_t begun = cairn_monotonic_ns();
	int rc = options->subset ? repo_subset_parse(options->subset, &check.subset, err) : 0;

	role_progress_begin(&verifying.progress);
	if (!rc)
		rc = role_repo_open(options->repository, &how, &repo, err);
	if (!rc && options->repair)
		rc = repair_index(repo, &verifying.progress, err);
	if (!rc && options->id) {
		rc = backup_select(repo, &(struct backup_choice){.name = options->id}, &snapshot,
				   err);
		check.snapshot = rc ? NULL : &snapshot->id;
	}
	if (!rc && options->protection)
		rc = say_protection(repo, err);
	if (!rc)
		rc = verify_repository(repo, &verifying, &check, err);
	role_progress_end(&verifying.progress);
	return role_metrics_task(options->metrics_file, METRICS_VERIFY, begun, rc, err);
}
