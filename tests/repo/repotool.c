/* SPDX-License-Identifier: Apache-2.0 */

/* The repository layer from a command line, for tests against other programs:
 *
 *   repotool init
 *   repotool put PATH FILE [CHUNK]      backs FILE up as PATH; prints the snapshot's id
 *   repotool get SNAPSHOT PATH OUT
 *   repotool list                       "ID TIME TREE PATHS TAGS" a line
 *   repotool forget ID...
 *   repotool prune [TENTHS OF A PERCENT]
 *   repotool check [--read-data]        a line for each problem; exit 1 if any
 *   repotool hold shared|exclusive      prints "held", waits for the end of its input
 *   repotool unlock [--all]
 *   repotool adopt
 *   repotool has BLOB...
 *
 * The repository is CAIRN_REPOSITORY, its password RESTIC_PASSWORD; keys and
 * certificates as repo/repo_store.h says. REPOTOOL_PACK (bytes), REPOTOOL_THREADS,
 * REPOTOOL_KDF_N, REPOTOOL_RETRY_MS, REPOTOOL_PART, REPOTOOL_VIRTUAL and
 * REPOTOOL_LOCK_OPTIONAL change the options of those names.
 */
#include "repotool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "repo/blob.h"
#include "repo/prune.h"
#include "repo/repo_check.h"
#include "repo/repo_snapshot.h"

uint64_t tool_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value;

	return text && cairn_parse_u64(text, &value, NULL) == 0 ? value : otherwise;
}

static struct repo_options tool_options(enum repo_lock_kind lock)
{
	const char *password = getenv("RESTIC_PASSWORD");
	struct repo_options options = {
		.store.location = getenv("CAIRN_REPOSITORY"),
		.store.retry_ms = tool_number("REPOTOOL_RETRY_MS", 0),
		.store.stall_ms = tool_number("REPOTOOL_STALL_MS", 0),
		.store.part_size = tool_number("REPOTOOL_PART", 0),
		.store.s3_style =
			tool_number("REPOTOOL_VIRTUAL", 0) ? REPO_S3_VIRTUAL : REPO_S3_AUTO,
		.password = password,
		.password_len = password ? strlen(password) : 0,
		.lock = lock,
		.lock_wait_ms = tool_number("REPOTOOL_LOCK_WAIT_MS", 0),
		.lock_pause_ms = tool_number("REPOTOOL_LOCK_PAUSE_MS", 0),
		.lock_optional = tool_number("REPOTOOL_LOCK_OPTIONAL", 0) != 0,
		.pack_size = tool_number("REPOTOOL_PACK", 0),
		.kdf_n = tool_number("REPOTOOL_KDF_N", 0),
	};

	repo_store_options_from_environment(&options.store);
	return options;
}

int tool_open(enum repo_lock_kind lock, bool index, struct repo **ret, struct cairn_err *err)
{
	struct repo_options options = tool_options(lock);
	struct repo *repo;
	int rc = repo_open(&options, &repo, err);

	if (rc == 0 && index) {
		rc = repo_load_index(repo, err);
		if (rc < 0)
			repo_close(repo);
	}
	if (rc == 0)
		*ret = repo;
	return rc;
}

static int run_init(int argc, char **argv, struct cairn_err *err)
{
	struct repo_options options = tool_options(REPO_LOCK_NONE);
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	int rc = repo_init(&options, &repo, err);

	(void)argc;
	(void)argv;
	if (rc == 0)
		printf("%s\n", repo_config_id(repo));
	return rc;
}

static int run_list(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	int rc = tool_open(REPO_LOCK_NONE, false, &repo, err);

	(void)argc;
	(void)argv;
	if (rc == 0)
		rc = repo_snapshot_list(repo, &list, err);
	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		const struct repo_snapshot *s = list.items[i];
		char id[REPO_ID_TEXT_MAX], tree[REPO_ID_TEXT_MAX];

		printf("%s %" PRId64 " %s", repo_id_format(&s->id, id), s->time_ns,
		       repo_id_format(&s->tree, tree));
		for (size_t k = 0; k < s->n_paths; k++)
			printf(" %s", s->paths[k]);
		for (size_t k = 0; k < s->n_tags; k++)
			printf(" #%s", s->tags[k]);
		printf("\n");
	}
	if (rc == 0 && list.damaged)
		return cairn_err_set(err, list.damaged_code, "%s", list.damaged_text);
	return rc;
}

static int run_forget(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	int rc = tool_open(REPO_LOCK_EXCLUSIVE, false, &repo, err);

	for (int i = 0; rc == 0 && i < argc; i++) {
		cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;

		rc = repo_snapshot_find(repo, argv[i], &snapshot, err);
		if (rc == 0)
			rc = repo_snapshot_remove(repo, &snapshot->id, err);
	}
	return rc;
}

static int run_prune(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	struct repo_prune_options options = {.max_unused_tenth = REPO_PRUNE_MAX_UNUSED};
	struct repo_prune_stats stats;
	uint64_t tenths;
	int rc = tool_open(REPO_LOCK_EXCLUSIVE, false, &repo, err);

	if (rc == 0 && argc > 0) {
		rc = cairn_parse_u64(argv[0], &tenths, err);
		options.max_unused_tenth = (unsigned)tenths;
	}
	if (rc == 0)
		rc = repo_prune(repo, &options, &stats, err);
	if (rc == 0)
		printf("kept %" PRIu64 " deleted %" PRIu64 " repacked %" PRIu64 " unknown %" PRIu64
		       " freed %" PRIu64 " used %" PRIu64 " unused %" PRIu64 "\n",
		       stats.packs_kept, stats.packs_deleted, stats.packs_repacked,
		       stats.packs_unknown, stats.bytes_freed, stats.blobs_used,
		       stats.blobs_unused);
	return rc;
}

static void print_problem(void *arg, int code, const char *text)
{
	(void)arg;
	printf("%s: %s\n", cairn_code_name(code), text);
}

static int run_check(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	struct repo_check_options options = {.problem = print_problem};
	struct repo_check_stats stats;
	int rc = tool_open(REPO_LOCK_SHARED, false, &repo, err);

	options.read_data = argc > 0 && strcmp(argv[0], "--read-data") == 0;
	if (rc == 0)
		rc = repo_check(repo, &options, &stats, err);
	if (rc < 0)
		return rc;
	printf("snapshots %" PRIu64 " trees %" PRIu64 " files %" PRIu64 " packs %" PRIu64
	       " blobs %" PRIu64 " unknown %" PRIu64 " problems %" PRIu64 "\n",
	       stats.snapshots, stats.trees, stats.files, stats.packs, stats.blobs,
	       stats.packs_unknown, stats.problems);
	if (stats.problems)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "%" PRIu64 " problems", stats.problems);
	return 0;
}

static int run_hold(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	bool exclusive = argc > 0 && strcmp(argv[0], "exclusive") == 0;
	int rc = tool_open(exclusive ? REPO_LOCK_EXCLUSIVE : REPO_LOCK_SHARED, false, &repo, err);

	if (rc < 0)
		return rc;
	printf("held\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return repo_check_lock(repo, err);
}

static int run_unlock(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	uint64_t removed;
	int rc = tool_open(REPO_LOCK_NONE, false, &repo, err);

	if (rc == 0)
		rc = repo_unlock(repo, argc > 0 && strcmp(argv[0], "--all") == 0, &removed, err);
	if (rc == 0)
		printf("removed %" PRIu64 "\n", removed);
	return rc;
}

static int run_adopt(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	uint64_t packs, blobs;
	int rc = tool_open(REPO_LOCK_SHARED, true, &repo, err);

	(void)argc;
	(void)argv;
	if (rc == 0)
		rc = repo_adopt_packs(repo, &packs, &blobs, err);
	if (rc == 0)
		rc = repo_flush(repo, err);
	if (rc == 0)
		printf("packs %" PRIu64 " blobs %" PRIu64 "\n", packs, blobs);
	return rc;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv, struct cairn_err *err);
	int min;
} commands[] = {
	{"init", run_init, 0},   {"put", tool_put, 2},      {"get", tool_get, 3},
	{"list", run_list, 0},   {"forget", run_forget, 1}, {"prune", run_prune, 0},
	{"check", run_check, 0}, {"hold", run_hold, 1},     {"unlock", run_unlock, 0},
	{"adopt", run_adopt, 0},
};

int main(int argc, char **argv)
{
	struct cairn_err err = {0};
	int rc = 2;

	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0 &&
		    argc - 2 >= commands[i].min)
			rc = commands[i].run(argc - 2, argv + 2, &err);
	if (rc < 0)
		fprintf(stderr, "repotool: %s: %s\n", cairn_code_name(rc), err.msg);
	else if (rc == 2)
		fprintf(stderr, "repotool: which command?\n");
	return rc < 0 ? 1 : rc;
}
