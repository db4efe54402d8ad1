/* SPDX-License-Identifier: Apache-2.0 */

/* A snapshot that was saved during a prune is removed only if something that it needs is missing:
 * not if that is damaged, and not if it cannot be read. */

#include "cairntest.h"

#include "repofix.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/names.h"
#include "repo/prune_late.h"
#include "repo/repo_store.h"
#include "repo/tree.h"

#define BLOBS 40

struct late {
	struct repofix *fix;
	struct repo_id id;                     /* of the snapshot */
	struct repo_place tree, subtree, data; /* of its trees and first blob */
	char snapshot_path[224];
};

static int late_first_blob(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct repo_id *first = arg;

	(void)err;
	if (n > 0 && repo_id_is_zero(first))
		*first = ids[0];
	return 0;
}

static void late_path(const struct late *late, const char *kind, const struct repo_id *id,
		      char path[224])
{
	char hex[REPO_ID_TEXT_MAX];

	repo_id_format(id, hex);
	if (strcmp(kind, "data") == 0)
		snprintf(path, 224, "%s/data/%.2s/%s", late->fix->path, hex, hex);
	else
		snprintf(path, 224, "%s/%s/%s", late->fix->path, kind, hex);
}

/* Makes a backup, and takes the exclusive lock of a prune that does not know it. */
static void late_begin(struct repofix *fix, struct late *late)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {0};
	struct repo_id blob = {0};
	struct cairn_err err = {0};

	*late = (struct late){.fix = fix};
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, BLOBS, &late->id, &err), &err);
	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	assert_ok(repo_snapshot_load(fix->repo, &late->id, &snapshot, &err), &err);
	assert_ok(repo_tree_find(fix->repo, &snapshot->tree, "/vol/data", &found, &err), &err);
	assert_ok(repo_tree_read_content(fix->repo, &found.tree, "data", late_first_blob, &blob,
					 &err),
		  &err);
	assert_ok(repo_blob_place(fix->repo, REPO_BLOB_TREE, &snapshot->tree, &late->tree, &err),
		  &err);
	assert_ok(repo_blob_place(fix->repo, REPO_BLOB_TREE, &found.tree, &late->subtree, &err),
		  &err);
	assert_ok(repo_blob_place(fix->repo, REPO_BLOB_DATA, &blob, &late->data, &err), &err);
	late_path(late, "snapshots", &late->id, late->snapshot_path);
	repofix_open(fix, REPO_LOCK_EXCLUSIVE); /* trees that were read are kept in memory */
}

/* Judges it; tells whether it was removed. */
static int late_judge(struct late *late, bool *ret_removed, struct cairn_err *err)
{
	const struct repo_names known = {0};
	uint64_t removed = 0;
	int rc = repo_prune_remove_late(late->fix->repo, &known, &removed, err);

	*ret_removed = removed > 0;
	assert_int_equal(access(late->snapshot_path, F_OK), removed ? -1 : 0);
	return rc;
}

static void late_expect_kept(struct late *late, int code)
{
	char hex[REPO_ID_TEXT_MAX], shorted[9];
	struct cairn_err err = {0};
	bool removed;

	assert_code(late_judge(late, &removed, &err), code);
	assert_false(removed);
	snprintf(shorted, sizeof(shorted), "%.8s", repo_id_format(&late->id, hex));
	assert_non_null(strstr(err.msg, shorted)); /* it is named */
}

static void late_expect_removed(struct late *late)
{
	struct cairn_err err = {0};
	bool removed;

	assert_ok(late_judge(late, &removed, &err), &err);
	assert_true(removed);
}

/* ---- ways to spoil a repository ------------------------------------------------ */

static void flip_at(const char *path, uint64_t offset)
{
	uint8_t byte;
	int fd;

	assert_int_equal(chmod(path, 0600), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)offset), 1);
	close(fd);
}

static void cut_at(const char *path, uint64_t size)
{
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(truncate(path, (off_t)size), 0);
}

static void flip_blob(const struct late *late, const struct repo_place *place)
{
	char path[224];

	late_path(late, "data", &place->pack_id, path);
	flip_at(path, place->offset + place->length / 2);
}

static void cut_blob(const struct late *late, const struct repo_place *place)
{
	char path[224];

	late_path(late, "data", &place->pack_id, path);
	cut_at(path, place->offset + place->length - 1);
}

static void lose_pack(const struct late *late, const struct repo_place *place)
{
	char path[224];

	late_path(late, "data", &place->pack_id, path);
	assert_int_equal(unlink(path), 0);
}

/* The path of the only index file. */
static void index_path(const struct late *late, char path[224])
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct cairn_err err = {0};

	assert_ok(repo_names_list(repo_get_store(late->fix->repo), REPO_FILE_INDEX, &names, &err),
		  &err);
	assert_int_equal(names.n, 1);
	late_path(late, "index", &names.items[0].name, path);
}

/* ---- whose lock was lost --------------------------------------------------------- */

static void lose_lock(const struct late *late)
{
	cairn_cleanup(repo_names_done) struct repo_names names = {0};
	struct cairn_err err = {0};
	char path[224];

	assert_ok(repo_names_list(repo_get_store(late->fix->repo), REPO_FILE_LOCK, &names, &err),
		  &err);
	assert_int_equal(names.n, 1);
	late_path(late, "locks", &names.items[0].name, path);
	assert_int_equal(unlink(path), 0);
}

/* The writer may have had a valid lock: it is not the one to blame. */
static void one_stays_if_the_prune_lost_its_lock(void **state)
{
	const struct repo_names known = {0};
	struct cairn_err err = {0};
	struct late late;
	bool removed;

	late_begin(*state, &late);
	lose_pack(&late, &late.data);
	lose_lock(&late);
	assert_code(late_judge(&late, &removed, &err), CAIRN_ABORTED);
	assert_false(removed);
	assert_non_null(strstr(err.msg, "the prune lost its lock"));
	assert_null(strstr(err.msg, "without a valid lock"));
	assert_code(repo_prune_refuse_late(late.fix->repo, &known, &err), CAIRN_ABORTED);
	assert_non_null(strstr(err.msg, "the lock on the repository was removed"));
	assert_null(strstr(err.msg, "in spite of the exclusive lock"));
}

/* ---- damage is no absence ------------------------------------------------------ */

static void one_with_a_damaged_tree_stays(void **state)
{
	struct late late;

	late_begin(*state, &late);
	flip_blob(&late, &late.tree);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

static void one_with_a_damaged_subtree_stays(void **state)
{
	struct late late;

	late_begin(*state, &late);
	flip_blob(&late, &late.subtree);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

static void one_whose_pack_of_trees_is_cut_stays(void **state)
{
	struct late late;

	late_begin(*state, &late);
	cut_blob(&late, &late.subtree);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

static void one_whose_pack_of_data_is_cut_stays(void **state)
{
	struct late late;

	late_begin(*state, &late);
	cut_blob(&late, &late.data);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

static void one_stays_if_the_index_is_damaged(void **state)
{
	struct late late;
	char path[224];

	late_begin(*state, &late);
	index_path(&late, path);
	flip_at(path, 50);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
	cut_at(path, 0);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

/* The packs are there: a repair finds what they hold. */
static void one_stays_if_the_index_is_lost(void **state)
{
	struct late late;
	char path[224], away[224];

	late_begin(*state, &late);
	index_path(&late, path);
	assert_int_equal(unlink(path), 0);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
	snprintf(path, sizeof(path), "%s/index", late.fix->path);
	snprintf(away, sizeof(away), "%s/elsewhere", late.fix->dir);
	assert_int_equal(rename(path, away), 0);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

/* Its name is the hash of its bytes, but no key opens them. */
static void one_that_cannot_be_decrypted_stays(void **state)
{
	struct late late;
	struct repo_store *store;
	struct cairn_err err = {0};
	char path[224];

	late_begin(*state, &late);
	assert_int_equal(unlink(late.snapshot_path), 0);
	store = repo_get_store(late.fix->repo);
	assert_ok(repo_store_put(store, REPO_FILE_SNAPSHOT,
				 "sixteen bytes and some more, no snapshot", 40, &late.id, &err),
		  &err);
	late_path(&late, "snapshots", &late.id, path);
	memcpy(late.snapshot_path, path, sizeof(path));
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

/* open() of a socket fails with ENXIO, as that of a device that went away. */
static void one_whose_pack_is_replaced_stays(void **state)
{
	struct late late;
	char path[224];

	late_begin(*state, &late);
	late_path(&late, "data", &late.tree.pack_id, path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mknod(path, S_IFSOCK | 0600, 0), 0);
	late_expect_kept(&late, CAIRN_DATA_LOSS);
}

/* ---- an error is no absence ----------------------------------------------------- */

static const struct repo_store_ops *real_ops;
static enum repo_file failing_kind;
static int failing_code;
static bool hide_packs; /* from the listing */
static struct repo_store_ops ops;

static int late_fail(enum repo_file kind, struct cairn_err *err)
{
	return kind == failing_kind ? cairn_err_set(err, failing_code, "the store failed") : 0;
}

static int failing_get(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       uint64_t offset, void *out, size_t n, struct cairn_err *err)
{
	int rc = late_fail(kind, err);

	return rc < 0 ? rc : real_ops->get(store, kind, name, offset, out, n, err);
}

static int failing_size(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
			uint64_t *ret_size, struct cairn_err *err)
{
	int rc = late_fail(kind, err);

	return rc < 0 ? rc : real_ops->size(store, kind, name, ret_size, err);
}

static int failing_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn,
			void *arg, struct cairn_err *err)
{
	int rc = hide_packs ? 0 : late_fail(kind, err);

	return rc < 0 || (hide_packs && kind == REPO_FILE_PACK)
		       ? rc
		       : real_ops->list(store, kind, fn, arg, err);
}

static void one_stays_if_the_store_fails(void **state)
{
	/* EIO, 403, 500, a timeout */
	static const int codes[] = {CAIRN_INTERNAL, CAIRN_DENIED, CAIRN_UNAVAILABLE,
				    CAIRN_DEADLINE};
	static const enum repo_file kinds[] = {REPO_FILE_INDEX, REPO_FILE_PACK};
	struct repo_store *store;
	struct late late;

	late_begin(*state, &late);
	store = repo_get_store(late.fix->repo);
	real_ops = store->ops;
	for (size_t i = 0; i < ARRAY_LEN(codes) * ARRAY_LEN(kinds) * 2; i++) {
		failing_code = codes[i / 2 % ARRAY_LEN(codes)];
		failing_kind = kinds[i / 2 / ARRAY_LEN(codes)];
		ops = *real_ops;
		ops.get_all = NULL;
		if (i % 2)
			ops.get = failing_get;
		else
			ops.list = failing_list;
		store->ops = &ops;
		late_expect_kept(&late, failing_code);
		store->ops = real_ops;
	}
}

/* A listing that left packs out, and a store that cannot say whether they are there. */
static void one_stays_if_packs_are_not_listed(void **state)
{
	struct repo_store *store;
	struct late late;

	late_begin(*state, &late);
	store = repo_get_store(late.fix->repo);
	real_ops = store->ops;
	ops = *real_ops;
	ops.list = failing_list;
	hide_packs = true;
	store->ops = &ops;
	late_expect_kept(&late, CAIRN_DATA_LOSS);
	hide_packs = false;
	store->ops = real_ops;
	lose_pack(&late, &late.data);
	ops = *real_ops;
	ops.size = failing_size;
	failing_kind = REPO_FILE_PACK;
	failing_code = CAIRN_DENIED;
	store->ops = &ops;
	late_expect_kept(&late, CAIRN_DENIED);
	store->ops = real_ops;
}

/* ---- absence -------------------------------------------------------------------- */

static void one_whose_pack_of_data_is_gone_is_removed(void **state)
{
	struct late late;

	late_begin(*state, &late);
	lose_pack(&late, &late.data);
	late_expect_removed(&late);
}

/* The index names the pack: the process that lost its lock wrote it after the pack was deleted. */
static void one_whose_pack_of_trees_is_gone_is_removed(void **state)
{
	struct late late;

	late_begin(*state, &late);
	lose_pack(&late, &late.tree);
	late_expect_removed(&late);
}

/* Two processes stored the same blobs; either's packs are enough. */
static void one_with_another_copy_stays(void **state)
{
	struct repofix *fix = *state;
	struct repo_options options = repofix_options(fix, REPO_LOCK_SHARED);
	struct cairn_err err = {0};
	struct repo *other = NULL;
	struct repo_id again;
	struct late late;
	bool removed;

	assert_ok(repo_open(&options, &other, &err), &err);
	assert_ok(repo_load_index(other, &err), &err);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, BLOBS, &again, &err), &err);
	assert_ok(repofix_backup(other, 1, BLOBS, &again, &err), &err);
	repo_close(other);
	late_begin(fix, &late);
	lose_pack(&late, &late.data);
	lose_pack(&late, &late.tree);
	assert_ok(late_judge(&late, &removed, &err), &err);
	assert_false(removed);
	repofix_verify(fix->repo, &late.id, 1, BLOBS);
}

/* What cannot be judged does not protect what is incomplete. */
static void a_damaged_one_does_not_hide_an_incomplete_one(void **state)
{
	struct repofix *fix = *state;
	const struct repo_names known = {0};
	struct cairn_err err = {0};
	struct late first, second;
	uint64_t removed = 0;

	late_begin(fix, &first);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1000, BLOBS, &second.id, &err), &err);
	repofix_open(fix, REPO_LOCK_EXCLUSIVE);
	flip_blob(&first, &first.tree);
	second.fix = fix;
	late_path(&second, "snapshots", &second.id, second.snapshot_path);
	{
		cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;

		assert_ok(repo_snapshot_load(fix->repo, &second.id, &snapshot, &err), &err);
		assert_ok(repo_blob_place(fix->repo, REPO_BLOB_TREE, &snapshot->tree, &second.tree,
					  &err),
			  &err);
	}
	lose_pack(&second, &second.tree);
	assert_code(repo_prune_remove_late(fix->repo, &known, &removed, &err), CAIRN_DATA_LOSS);
	assert_int_equal(removed, 1);
	assert_int_equal(access(first.snapshot_path, F_OK), 0);
	assert_int_equal(access(second.snapshot_path, F_OK), -1);
}

#define with_repo(test) cmocka_unit_test_setup_teardown(test, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_repo(one_stays_if_the_prune_lost_its_lock),
		with_repo(one_with_a_damaged_tree_stays),
		with_repo(one_with_a_damaged_subtree_stays),
		with_repo(one_whose_pack_of_trees_is_cut_stays),
		with_repo(one_whose_pack_of_data_is_cut_stays),
		with_repo(one_stays_if_the_index_is_damaged),
		with_repo(one_stays_if_the_index_is_lost),
		with_repo(one_that_cannot_be_decrypted_stays),
		with_repo(one_whose_pack_is_replaced_stays),
		with_repo(one_stays_if_the_store_fails),
		with_repo(one_stays_if_packs_are_not_listed),
		with_repo(one_whose_pack_of_data_is_gone_is_removed),
		with_repo(one_whose_pack_of_trees_is_gone_is_removed),
		with_repo(one_with_another_copy_stays),
		with_repo(a_damaged_one_does_not_hide_an_incomplete_one),
	};

	return cmocka_run_group_tests_name("repo/late", tests, NULL, NULL);
}
