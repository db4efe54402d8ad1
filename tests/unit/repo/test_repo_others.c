/* SPDX-License-Identifier: Apache-2.0 */

/* Repositories that others use, change or spoil meanwhile. */

#include "cairntest.h"

#include "repofix.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "repo/keys.h"
#include "repo/names.h"
#include "repo/prune.h"
#include "repo/prune_late.h"
#include "repo/repo_check.h"
#include "repo/repo_store.h"

/* ---- a backup while a check runs --------------------------------------------- */

struct meanwhile {
	struct repofix *fix;
	const char *step; /* when it is reported, a backup is made */
	bool made;
};

static void back_up(void *arg, const char *step, uint64_t done, uint64_t total)
{
	struct meanwhile *meanwhile = arg;
	struct repo_options options = repofix_options(meanwhile->fix, REPO_LOCK_SHARED);
	struct repo *repo = NULL;
	struct cairn_err err = {0};
	struct repo_id id;

	(void)total;
	if (meanwhile->made || done > 0 || strcmp(step, meanwhile->step) != 0)
		return;
	meanwhile->made = true;
	assert_ok(repo_open(&options, &repo, &err), &err);
	assert_ok(repo_load_index(repo, &err), &err);
	assert_ok(repofix_backup(repo, 1000, 20, &id, &err), &err);
	repo_close(repo);
}

static void a_backup_that_is_made_meanwhile_is_no_fault(void **state)
{
	static const char *const steps[] = {"index", "snapshots", REPO_CHECK_DATA};
	struct repofix *fix = *state;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct meanwhile meanwhile = {.fix = fix, .step = steps[i]};
		struct repo_check_options options = {
			.read_data = true, .progress = back_up, .arg = &meanwhile};
		struct repo_check_stats stats = {0};
		struct cairn_err err = {0};
		struct repo_id id;

		repofix_open(fix, REPO_LOCK_SHARED);
		assert_ok(repofix_backup(fix->repo, 100 * i, 20, &id, &err), &err);
		repofix_open(fix, REPO_LOCK_SHARED);
		assert_ok(repo_check(fix->repo, &options, &stats, &err), &err);
		assert_int_equal(stats.problems, 0);
	}
}

/* ---- what cannot be read ------------------------------------------------------ */

static const struct repo_store_ops *real_ops;

static int mislaid(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   uint64_t *ret_size, struct cairn_err *err)
{
	if (kind == REPO_FILE_SNAPSHOT)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "mislaid");
	return real_ops->size(store, kind, name, ret_size, err);
}

static void prune_deletes_nothing_when_a_snapshot_went_away(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_options options = {.max_unused_tenth = 0};
	struct repo_prune_stats stats;
	struct repo_store_ops ops;
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 30, &id, &err), &err);
	real_ops = repo_get_store(fix->repo)->ops;
	ops = *real_ops;
	ops.size = mislaid;
	repo_get_store(fix->repo)->ops = &ops;
	assert_code(repo_prune(fix->repo, &options, &stats, &err), CAIRN_ABORTED);
	assert_non_null(strstr(err.msg, "nothing was deleted"));
	repo_get_store(fix->repo)->ops = real_ops;
	repofix_verify(fix->repo, &id, 1, 30);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

static atomic_bool flipped_once; /* packs are read by several threads */

static int flip_once(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		     uint64_t offset, void *data, size_t n, struct cairn_err *err)
{
	uint64_t size = 0;
	int rc = real_ops->get(store, kind, name, offset, data, n, err);

	if (rc == 0 && kind == REPO_FILE_PACK)
		rc = real_ops->size(store, kind, name, &size, err);
	if (rc == 0 && offset == 0 && size > 0 && n == size &&
	    !atomic_exchange(&flipped_once, true))
		((uint8_t *)data)[n / 3] ^= 1; /* all of a pack was read */
	return rc;
}

/* Memory or a network that flips a bit once must not cost what is whole in the store. */
static void repair_reads_again_before_it_deletes(void **state)
{
	struct repofix *fix = *state;
	struct repo_check_options options = {.read_data = true, .repair = true};
	struct repo_options how = repofix_options(fix, REPO_LOCK_EXCLUSIVE);
	struct repo_check_stats stats;
	struct repo_store_ops ops;
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 1, &id, &err), &err);
	repofix_close(fix);
	assert_ok(repo_open(&how, &fix->repo, &err), &err);
	assert_ok(repo_repair_index(fix->repo, NULL, &err), &err);
	real_ops = repo_get_store(fix->repo)->ops;
	ops = *real_ops;
	ops.get = flip_once;
	flipped_once = false;
	repo_get_store(fix->repo)->ops = &ops;
	assert_ok(repo_check(fix->repo, &options, &stats, &err), &err);
	repo_get_store(fix->repo)->ops = real_ops;
	assert_true(flipped_once);
	assert_int_equal(stats.packs_dropped, 0);
	repofix_verify(fix->repo, &id, 1, 1);
}

static unsigned index_puts, index_refused; /* how many were accepted and refused */

/* The first index file fits, which is that of the packs that were written anew; then none does, until
 * the prune tries less. */
static int put_one_index(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
			 const void *data, size_t n, const struct repo_id *hash,
			 struct cairn_err *err)
{
	if (kind == REPO_FILE_INDEX && index_puts == 1 && index_refused < 2) {
		index_refused++;
		return cairn_err_set(err, CAIRN_NO_SPACE, "no space");
	}
	index_puts += kind == REPO_FILE_INDEX;
	return real_ops->put(store, kind, name, data, n, hash, err);
}

static uint64_t bytes_of_packs(struct repofix *fix)
{
	cairn_cleanup(repo_names_done) struct repo_names packs = {0};
	struct cairn_err err = {0};
	uint64_t bytes = 0;

	assert_ok(repo_names_list(repo_get_store(fix->repo), REPO_FILE_PACK, &packs, &err), &err);
	for (size_t i = 0; i < packs.n; i++)
		bytes += packs.items[i].size;
	return bytes;
}

/* Packs of a pass that failed are in an index then, but deleting them frees nothing. */
static void prune_does_not_count_what_it_wrote_itself_as_freed(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_options options = {.max_unused_tenth = 0};
	struct repo_prune_stats stats;
	struct repo_store_ops ops;
	struct cairn_err err = {0};
	struct repo_id whole, half;
	uint64_t before;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 60, &whole, &err), &err);
	for (unsigned i = 0; i < 2; i++) /* each pack is partly used */
		assert_ok(repofix_backup(fix->repo, 20 + 20 * i, 5, &half, &err), &err);
	assert_ok(repo_snapshot_remove(fix->repo, &whole, &err), &err);
	before = bytes_of_packs(fix);
	real_ops = repo_get_store(fix->repo)->ops;
	ops = *real_ops;
	ops.put = put_one_index;
	ops.space = NULL;
	ops.reserve_release = NULL;
	index_puts = index_refused = 0;
	repo_get_store(fix->repo)->ops = &ops;
	assert_ok(repo_prune(fix->repo, &options, &stats, &err), &err);
	repo_get_store(fix->repo)->ops = real_ops;
	assert_true(index_refused > 0);
	assert_int_equal(stats.bytes_freed, before - bytes_of_packs(fix));
	repofix_verify(fix->repo, &half, 40, 5);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

/* A directory that was moved or never copied. */
static void prune_deletes_nothing_when_the_snapshots_are_elsewhere(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_options options = {.max_unused_tenth = 0};
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	struct repo_id id;
	char from[128], to[128];

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repofix_backup(fix->repo, 1, 30, &id, &err), &err);
	snprintf(from, sizeof(from), "%s/snapshots", fix->path);
	snprintf(to, sizeof(to), "%s/elsewhere", fix->dir);
	assert_int_equal(rename(from, to), 0);
	assert_code(repo_prune(fix->repo, &options, &stats, &err), CAIRN_DATA_LOSS);
	assert_non_null(strstr(err.msg, "snapshots' is missing"));
	assert_int_equal(rename(to, from), 0);
	repofix_verify(fix->repo, &id, 1, 30);
	assert_int_equal(repofix_problems(fix->repo, true), 0);
}

/* ---- somebody does not want to wait any more ----------------------------------- */

static atomic_int asked, answer_after; /* true from so many questions on */

static bool is_cancelled(void)
{
	return ++asked > answer_after;
}

static void open_impatient(struct repofix *fix, enum repo_lock_kind lock)
{
	struct repo_options options = repofix_options(fix, lock);
	struct cairn_err err = {0};

	repofix_close(fix);
	answer_after = 1000000;
	options.store.cancelled = is_cancelled;
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_ok(repo_load_index(fix->repo, &err), &err);
}

static void a_check_ends_when_nobody_waits_for_it(void **state)
{
	struct repofix *fix = *state;
	struct repo_check_options options = {.read_data = true};
	struct repo_check_stats stats;
	struct cairn_err err = {0};
	struct repo_id id;
	int rc = CAIRN_CANCELLED;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 100, &id, &err), &err);
	for (int n = 0; rc == CAIRN_CANCELLED; n++) {
		open_impatient(fix, REPO_LOCK_SHARED);
		asked = 0;
		answer_after = n;
		rc = repo_check(fix->repo, &options, &stats, &err);
		assert_true(rc == 0 || n < 100);
		assert_true(rc < 0 || n > 3); /* index, snapshot and packs were asked for */
	}
	assert_ok(rc, &err);
}

static void a_prune_that_is_given_up_anywhere_loses_nothing(void **state)
{
	struct repofix *fix = *state;
	struct repo_prune_options options = {.max_unused_tenth = 0};
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	int rc = CAIRN_CANCELLED;

	for (int n = 0; rc == CAIRN_CANCELLED; n += 1 + n / 3) {
		struct repo_id a, b;

		repofix_open(fix, REPO_LOCK_EXCLUSIVE);
		assert_ok(repofix_backup(fix->repo, 1, 40, &a, &err), &err);
		assert_ok(repofix_backup(fix->repo, 20, 40, &b, &err), &err);
		assert_ok(repo_snapshot_remove(fix->repo, &a, &err), &err);
		open_impatient(fix, REPO_LOCK_EXCLUSIVE);
		asked = 0;
		answer_after = n;
		rc = repo_prune(fix->repo, &options, &stats, &err);
		assert_true(rc == 0 || n < 10000);
		repofix_open(fix, REPO_LOCK_SHARED);
		repofix_verify(fix->repo, &b, 20, 40);
		assert_int_equal(repofix_problems(fix->repo, true), 0);
	}
	assert_ok(rc, &err);
}

static void nobody_waits_for_a_lock_that_nobody_wants(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_EXCLUSIVE);
	struct repo *repo = NULL;
	struct cairn_err err = {0};

	repofix_open(fix, REPO_LOCK_SHARED);
	options.lock_wait_ms = UINT64_MAX;
	options.store.cancelled = is_cancelled;
	asked = 0;
	answer_after = 1;
	assert_code(repo_open(&options, &repo, &err), CAIRN_CANCELLED);
	assert_null(repo);
}

/* Two that remove each other's key: who gets the lock last was opened with a key that
 * is not there any more. */
static void a_key_that_was_removed_meanwhile_removes_no_other(void **state)
{
	struct repofix *fix = *state;
	cairn_cleanup(repo_key_list_done) struct repo_key_list list = {0};
	char path[200], hex[REPO_ID_TEXT_MAX];
	struct repo_id other, removed;
	struct cairn_err err = {0};

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repo_key_list(fix->repo, &list, &err), &err);
	assert_int_equal(list.n, 1);
	assert_true(list.items[0].current);
	assert_ok(repo_key_write(fix->repo, "other", 5, 2, &other, &err), &err);
	snprintf(path, sizeof(path), "%s/keys/%s", fix->path,
		 repo_id_format(&list.items[0].id, hex));
	assert_int_equal(unlink(path), 0);
	assert_code(repo_key_remove(fix->repo, repo_id_format(&other, hex), &removed, &err),
		    CAIRN_PRECONDITION);
	snprintf(path, sizeof(path), "%s/keys/%s", fix->path, hex);
	assert_int_equal(access(path, F_OK), 0);
}

static int sweep_meanwhile(void *arg, struct cairn_err *err)
{
	struct repo_swept swept = {0};

	assert_ok(repo_store_sweep(arg, &swept, err), err);
	assert_int_equal(swept.files, 1);
	return 0;
}

static int refuse_to_publish(void *arg, struct cairn_err *err)
{
	(void)arg;
	return cairn_err_set(err, CAIRN_PRECONDITION, "refused");
}

/* A prune sweeps before it lists snapshots: one that it does not list must never appear. */
static void a_file_that_was_swept_is_never_visible(void **state)
{
	struct repofix *fix = *state;
	struct repo_store_gate gate = {.may_publish = sweep_meanwhile};
	struct repo_snapshot_list list = {0};
	struct repo_store *store;
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	store = repo_get_store(fix->repo);
	gate.arg = store;
	assert_code(repo_store_put_gated(store, REPO_FILE_SNAPSHOT, "text", 4, &gate, &id, &err),
		    CAIRN_ABORTED);
	gate.may_publish = refuse_to_publish;
	assert_code(repo_store_put_gated(store, REPO_FILE_SNAPSHOT, "text", 4, &gate, &id, &err),
		    CAIRN_PRECONDITION);
	assert_ok(repo_snapshot_list(fix->repo, &list, &err), &err);
	assert_int_equal(list.n + list.damaged, 0);
	repo_snapshot_list_done(&list);
}

/* The end of a prune, whose index is older than a snapshot that it did not know. */
static void a_late_snapshot_is_judged_by_what_is_stored_now(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	const struct repo_names known = {0};
	struct repo *writer = NULL;
	uint64_t removed = 0;
	char path[200], hex[REPO_ID_TEXT_MAX];
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_open(&options, &writer, &err), &err);
	assert_ok(repo_load_index(writer, &err), &err);
	assert_ok(repofix_backup(writer, 1, 40, &id, &err), &err);
	repo_close(writer);
	assert_ok(repo_prune_remove_late(fix->repo, &known, &removed, &err), &err);
	assert_int_equal(removed, 0);
	repofix_verify(fix->repo, &id, 1, 40);

	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	snprintf(path, sizeof(path), "%s/snapshots/%s", fix->path, repo_id_format(&id, hex));
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, 20), 0);
	assert_code(repo_prune_remove_late(fix->repo, &known, &removed, &err), CAIRN_DATA_LOSS);
	assert_int_equal(removed, 0);
	assert_int_equal(access(path, F_OK), 0);
}

#define with_repo(test) cmocka_unit_test_setup_teardown(test, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_repo(a_backup_that_is_made_meanwhile_is_no_fault),
		with_repo(prune_deletes_nothing_when_a_snapshot_went_away),
		with_repo(repair_reads_again_before_it_deletes),
		with_repo(prune_does_not_count_what_it_wrote_itself_as_freed),
		with_repo(prune_deletes_nothing_when_the_snapshots_are_elsewhere),
		with_repo(a_check_ends_when_nobody_waits_for_it),
		with_repo(a_prune_that_is_given_up_anywhere_loses_nothing),
		with_repo(nobody_waits_for_a_lock_that_nobody_wants),
		with_repo(a_key_that_was_removed_meanwhile_removes_no_other),
		with_repo(a_file_that_was_swept_is_never_visible),
		with_repo(a_late_snapshot_is_judged_by_what_is_stored_now),
	};

	return cmocka_run_group_tests_name("repo/others", tests, NULL, NULL);
}
