/* SPDX-License-Identifier: Apache-2.0 */

/* Which backup a name means, in a repository that holds several volumes. */

#include "cairntest.h"

#include "repofix.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backup/backup_record.h"
#include "backup/select.h"
#include "backup/subject.h"
#include "base/cleanup.h"

/* A backup's snapshot file; its tree is that of any other. */
struct made {
	const char *volume, *volume_id, *snapshot, *host;
	int64_t time;
	struct repo_id id;
	const char *pool_id, *pool_dir;
};

static void save(struct repofix *fix, const struct repo_id *tree, struct made *m)
{
	struct backup_record record = {.volume = m->volume,
				       .volume_id = m->volume_id,
				       .pool_id = m->pool_id,
				       .pool_dir = m->pool_dir,
				       .snapshot = m->snapshot,
				       .snapshot_id = m->snapshot,
				       .mode = "full"};
	cairn_cleanup(backup_tags_done) struct backup_tags tags = {0};
	const char *texts[BACKUP_TAGS];
	const char *path = m->volume;
	struct repo_snapshot snapshot = {.time_ns = m->time,
					 .tree = *tree,
					 .paths = &path,
					 .n_paths = 1,
					 .hostname = m->host};
	struct cairn_err err = {0};

	if (m->volume_id) {
		assert_ok(backup_tags_make(&record, &tags, &err), &err);
		for (size_t i = 0; i < tags.n; i++)
			texts[i] = tags.at[i];
		snapshot.tags = texts;
		snapshot.n_tags = tags.n;
	}
	assert_ok(repo_snapshot_save(fix->repo, &snapshot, &m->id, &err), &err);
}

static struct made data1 = {"data", "vol-1", "monday", "a", 100, {{0}}, NULL, NULL};
static struct made data2 = {"data", "vol-1", "tuesday", "a", 200, {{0}}, NULL, NULL};
static struct made logs = {"logs", "vol-2", "tuesday", "a", 300, {{0}}, NULL, NULL};

/* Three backups of two volumes, the newest of the second. */
static void save_all(struct repofix *fix)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *any = NULL;
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 1, &id, &err), &err);
	assert_ok(repo_snapshot_load(fix->repo, &id, &any, &err), &err);
	assert_ok(repo_snapshot_remove(fix->repo, &id, &err), &err);
	save(fix, &any->tree, &data1);
	save(fix, &any->tree, &data2);
	save(fix, &any->tree, &logs);
}

static void save_one(struct repofix *fix, struct made *m)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *any = NULL;
	struct cairn_err err = {0};

	assert_ok(repo_snapshot_load(fix->repo, &data1.id, &any, &err), &err);
	save(fix, &any->tree, m);
}

static int code_of(struct repofix *fix, struct backup_choice choice, const struct made *want)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *found = NULL;
	struct cairn_err err = {0};
	int rc = backup_select(fix->repo, &choice, &found, &err);

	if (rc == 0 && want)
		assert_true(repo_id_equal(&found->id, &want->id));
	if (rc)
		assert_int_not_equal(err.msg[0], '\0');
	return rc;
}

static void a_name_leads_to_one_volume(void **state)
{
	struct repofix *fix = *state;
	char hex[REPO_ID_TEXT_MAX];

	save_all(fix);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data"}, &data2), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "vol-1"}, &data2), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data@monday"}, &data1), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "vol-1@monday"}, &data1), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "logs"}, &logs), 0);
	repo_id_format(&data1.id, hex);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = hex}, &data1), 0);
	hex[10] = '\0';
	assert_int_equal(code_of(fix, (struct backup_choice){.name = hex}, &data1), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "tuesday"}, NULL),
			 CAIRN_INVALID); /* the id of snapshots of two volumes, here */
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "nothing"}, NULL),
			 CAIRN_NOT_FOUND);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data@"}, NULL),
			 CAIRN_NOT_FOUND);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = ""}, NULL), CAIRN_INVALID);
}

/* Nobody who deletes 'data' means the newest backup of it. */
static void the_only_one_is_not_the_newest_of_several(void **state)
{
	struct repofix *fix = *state;
	struct made again = {"data", "vol-1", "monday", "a", 400, {{0}}, NULL, NULL};

	save_all(fix);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data", .only = true}, NULL),
			 CAIRN_INVALID);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data@monday", .only = true}, &data1),
		0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "logs", .only = true}, &logs),
			 0);
	save_one(fix, &again);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data@monday", .only = true}, NULL),
		CAIRN_INVALID);
	assert_int_equal(
		code_of(fix,
			(struct backup_choice){.name = "latest", .volume = "data", .only = true},
			&again),
		0);
}

static void the_latest_is_of_one_volume(void **state)
{
	struct repofix *fix = *state;
	char hex[REPO_ID_TEXT_MAX];

	save_all(fix);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "latest"}, NULL),
			 CAIRN_INVALID);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "latest", .volume = "data"}, &data2),
		0);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "latest", .volume = "vol-2"}, &logs),
		0);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "latest", .volume = "gone"}, NULL),
		CAIRN_NOT_FOUND);
	/* An id that is of another volume than was asked for. */
	repo_id_format(&logs.id, hex);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = hex, .volume = "data"}, NULL),
			 CAIRN_INVALID);
}

static void a_volume_of_another_host_is_another(void **state)
{
	struct made other = {"data", "vol-9", "friday", "b", 400, {{0}}, NULL, NULL};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &other);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data"}, NULL), CAIRN_INVALID);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data", .host = "a"}, &data2),
			 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data", .host = "b"}, &other),
			 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "vol-1"}, &data2), 0);
}

/* A volume that was made again has another id, and is the same to its user. */
static void a_volume_that_was_made_again_goes_on(void **state)
{
	struct made again = {"data", "vol-7", "friday", "a", 400, {{0}}, NULL, NULL};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &again);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data"}, &again), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "vol-1"}, &data2), 0);
}

/* Two pools of one host, each with a volume of the same name, and a repository. */
static void a_volume_of_another_pool_is_another(void **state)
{
	struct made first = {"data", "vol-7", "wednesday", "a", 400, {{0}}, "aaaa1", "/a"};
	struct made second = {"data", "vol-8", "friday", "a", 500, {{0}}, "bbbb2", "/b"};
	struct made made_again = {"data", "vol-9", "sunday", "a", 600, {{0}}, "aaaa1", "/a"};
	struct backup_choice by_name = {.name = "data"};
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *found = NULL;
	struct repofix *fix = *state;
	struct cairn_err err = {0};

	save_all(fix);
	save_one(fix, &first);
	/* One pool: what does not record one belongs to it. */
	assert_int_equal(code_of(fix, by_name, &first), 0);
	save_one(fix, &second);
	assert_int_equal(backup_select(fix->repo, &by_name, &found, &err), CAIRN_INVALID);
	assert_non_null(strstr(err.msg, "data on a (id vol-7, pool aaaa1 in /a)"));
	assert_non_null(strstr(err.msg, "data on a (id vol-8, pool bbbb2 in /b)"));
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "latest", .volume = "data"}, NULL),
		CAIRN_INVALID);
	save_one(fix, &made_again);
	assert_int_equal(code_of(fix, by_name, NULL), CAIRN_INVALID);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data", .pool = "aaaa"}, &made_again),
		0);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data", .pool = "bbbb2"}, &second), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data", .pool = "c"}, NULL),
			 CAIRN_NOT_FOUND);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "vol-8"}, &second), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data@friday"}, &second), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "logs"}, &logs), 0);
}

/* A lost pool that was created again, and restored from its backups. */
static void a_pool_that_was_made_again_goes_on(void **state)
{
	struct made lost = {"data", "vol-7", "wednesday", "a", 400, {{0}}, "aaaa1", "/pool"};
	struct made again = {"data", "vol-8", "friday", "a", 500, {{0}}, "bbbb2", "/pool"};
	struct made moved = {"data", "vol-7", "sunday", "a", 600, {{0}}, "aaaa1", "/moved"};
	struct backup_choice by_name = {.name = "data"};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &lost);
	save_one(fix, &again);
	assert_int_equal(code_of(fix, by_name, &again), 0);
	/* It was not lost. */
	save_one(fix, &moved);
	assert_int_equal(code_of(fix, by_name, NULL), CAIRN_INVALID);
}

/* Disks that are mounted in turn: two have alternated, and a third must not connect them. */
static void pools_that_take_turns_stay_apart(void **state)
{
	struct made first = {"data", "vol-7", "wednesday", "a", 400, {{0}}, "aaaa1", "/pool"};
	struct made second = {"data", "vol-8", "thursday", "a", 500, {{0}}, "bbbb2", "/pool"};
	struct made back = {"data", "vol-7", "friday", "a", 600, {{0}}, "aaaa1", "/pool"};
	struct made third = {"data", "vol-9", "sunday", "a", 700, {{0}}, "cccc3", "/pool"};
	struct backup_choice by_name = {.name = "data"};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &first);
	save_one(fix, &second);
	save_one(fix, &back);
	assert_int_equal(code_of(fix, by_name, NULL), CAIRN_INVALID);
	save_one(fix, &third);
	assert_int_equal(code_of(fix, by_name, NULL), CAIRN_INVALID);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data", .pool = "bbbb2"}, &second), 0);
}

static size_t count_subjects(struct repofix *fix, enum backup_subject_use use)
{
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	cairn_auto_free size_t *subjects = NULL;
	struct cairn_err err = {0};
	size_t n = 0;

	assert_ok(repo_snapshot_list(fix->repo, &list, &err), &err);
	assert_ok(backup_subject_number(list.items, list.n, use, &subjects, &err), &err);
	for (size_t i = 0; i < list.n; i++) {
		bool first = true;

		for (size_t k = 0; k < i; k++)
			first = first && subjects[k] != subjects[i];
		n += first;
	}
	return n;
}

/* A copied pool has the ids of its original. Until both have newer backups, it may have been
 * moved, but nothing of the other directory may be forgotten for it. */
static void a_copied_pool_is_another(void **state)
{
	struct made here = {"data", "vol-1", "wednesday", "a", 400, {{0}}, "aaaa1", "/pool"};
	struct made there = {"data", "vol-1", "thursday", "a", 500, {{0}}, "aaaa1", "/copy"};
	struct made again = {"data", "vol-1", "friday", "a", 600, {{0}}, "aaaa1", "/pool"};
	struct backup_choice by_name = {.name = "data"};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &here);
	assert_int_equal(count_subjects(fix, BACKUP_SUBJECT_TO_FORGET), 2); /* data, logs */
	save_one(fix, &there);
	assert_int_equal(code_of(fix, by_name, &there), 0);
	assert_int_equal(count_subjects(fix, BACKUP_SUBJECT_TO_FIND), 2);
	/* data1 and data2 record no pool and could be of either. */
	assert_int_equal(count_subjects(fix, BACKUP_SUBJECT_TO_FORGET), 4);
	save_one(fix, &again);
	assert_int_equal(code_of(fix, by_name, NULL), CAIRN_INVALID);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data", .pool = "/copy"}, &there), 0);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "data", .pool = "/pool"}, &again), 0);
	assert_int_equal(count_subjects(fix, BACKUP_SUBJECT_TO_FIND), 4);
}

/* data1 and data2, which record no pool, are of vol-1. */
static void backups_without_a_pool_follow_their_volume(void **state)
{
	struct made first = {"data", "vol-1", "wednesday", "a", 400, {{0}}, "aaaa1", "/a"};
	struct made second = {"data", "vol-8", "friday", "a", 500, {{0}}, "bbbb2", "/b"};
	struct made stray = {"data", "vol-3", "saturday", "a", 600, {{0}}, NULL, NULL};
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	cairn_auto_free size_t *subjects = NULL;
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	size_t of_first = 0, of_second = 0;

	save_all(fix);
	save_one(fix, &first);
	save_one(fix, &second);
	save_one(fix, &stray);
	assert_ok(repo_snapshot_list(fix->repo, &list, &err), &err);
	assert_ok(
		backup_subject_number(list.items, list.n, BACKUP_SUBJECT_TO_FIND, &subjects, &err),
		&err);
	for (size_t i = 0; i < list.n; i++) {
		of_first += subjects[i] == subjects[0];
		of_second += subjects[i] == subjects[4];
	}
	assert_true(repo_id_equal(&list.items[0]->id, &data1.id));
	assert_true(repo_id_equal(&list.items[4]->id, &second.id));
	assert_int_equal(of_first, 3); /* data1, data2, first */
	assert_int_equal(of_second, 1);
	assert_int_not_equal(subjects[5], subjects[0]);
	assert_int_not_equal(subjects[5], subjects[4]);
}

/* 'create --file … --volume-name data' beside a volume that is called data. */
static void a_file_and_a_volume_of_one_name_are_two(void **state)
{
	struct made file = {"data", "a:data", "20260101T000000Z", "a", 400, {{0}}, NULL, NULL};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &file);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data"}, NULL), CAIRN_INVALID);
	assert_int_equal(
		code_of(fix, (struct backup_choice){.name = "latest", .volume = "data"}, NULL),
		CAIRN_INVALID);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "vol-1"}, &data2), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "a:data"}, &file), 0);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data@monday"}, &data1), 0);
}

/* What others made has no volume; beside one of ours it makes "latest" unclear. */
static void a_foreign_snapshot_counts(void **state)
{
	struct made foreign = {"/home", NULL, NULL, "a", 400, {{0}}, NULL, NULL};
	struct repofix *fix = *state;

	save_all(fix);
	save_one(fix, &foreign);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "latest"}, NULL),
			 CAIRN_INVALID);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data"}, &data2), 0);
}

/* A short id that is a volume's name too could mean either. */
static void a_short_id_is_not_taken_for_a_volume(void **state)
{
	struct repofix *fix = *state;
	char hex[REPO_ID_TEXT_MAX], name[8] = {0};
	struct made odd = {name, "vol-5", "s", "a", 500, {{0}}, NULL, NULL};

	save_all(fix);
	repo_id_format(&logs.id, hex);
	memcpy(name, hex, 6);
	save_one(fix, &odd);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = name}, NULL), CAIRN_INVALID);
	hex[9] = '\0';
	assert_int_equal(code_of(fix, (struct backup_choice){.name = hex}, &logs), 0);
}

static void damage(const struct repofix *fix, const struct repo_id *id)
{
	char hex[REPO_ID_TEXT_MAX], path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/snapshots/%s", fix->path, repo_id_format(id, hex));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "damaged", 7, 0), 7);
	close(fd);
}

/* An older one would be restored in its place. */
static void the_newest_is_not_guessed_when_one_cannot_be_read(void **state)
{
	struct repofix *fix = *state;

	save_all(fix);
	damage(fix, &logs.id);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data"}, NULL),
			 CAIRN_DATA_LOSS);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "latest"}, NULL),
			 CAIRN_DATA_LOSS);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "nothing"}, NULL),
			 CAIRN_DATA_LOSS);
	/* A second snapshot may have got the name of one that was deleted; ids are not reused. */
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "data@monday"}, NULL),
			 CAIRN_DATA_LOSS);
	assert_int_equal(code_of(fix, (struct backup_choice){.name = "monday"}, &data1), 0);
}

#define with_repo(test) cmocka_unit_test_setup_teardown(test, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_repo(a_name_leads_to_one_volume),
		with_repo(the_only_one_is_not_the_newest_of_several),
		with_repo(the_latest_is_of_one_volume),
		with_repo(a_volume_of_another_host_is_another),
		with_repo(a_volume_that_was_made_again_goes_on),
		with_repo(a_volume_of_another_pool_is_another),
		with_repo(a_pool_that_was_made_again_goes_on),
		with_repo(pools_that_take_turns_stay_apart),
		with_repo(a_copied_pool_is_another),
		with_repo(backups_without_a_pool_follow_their_volume),
		with_repo(a_file_and_a_volume_of_one_name_are_two),
		with_repo(a_foreign_snapshot_counts),
		with_repo(a_short_id_is_not_taken_for_a_volume),
		with_repo(the_newest_is_not_guessed_when_one_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
