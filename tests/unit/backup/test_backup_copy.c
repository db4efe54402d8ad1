/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "repofix.h"

#include <stdio.h>
#include <stdlib.h>

#include "backup/copy_snapshot.h"
#include "base/cleanup.h"
#include "repo/blob.h"
#include "repo/tree.h"

#define CHUNKS 30

/* Two repositories; a backup is in the first. */
struct pair {
	struct repofix *from;
	struct repofix *to;
	struct repo_id id;
	struct repo_snapshot *snapshot;
	struct repo_snapshot_list there;
};

static struct pair open_pair(void)
{
	struct pair pair = {0};
	struct cairn_err err = {0};
	void *made = NULL;

	assert_int_equal(repofix_setup(&made), 0);
	pair.from = made;
	assert_int_equal(repofix_setup(&made), 0);
	pair.to = made;
	repofix_open(pair.from, REPO_LOCK_SHARED);
	repofix_open(pair.to, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(pair.from->repo, 1, CHUNKS, &pair.id, &err), &err);
	assert_ok(repo_snapshot_load(pair.from->repo, &pair.id, &pair.snapshot, &err), &err);
	return pair;
}

static void close_pair(struct pair *pair)
{
	void *from = pair->from;
	void *to = pair->to;

	repo_snapshot_free(pair->snapshot);
	repo_snapshot_list_done(&pair->there);
	repofix_teardown(&from);
	repofix_teardown(&to);
}

static struct copy_result copy(struct pair *pair)
{
	struct copy_result result = {0};
	struct cairn_err err = {0};

	repo_snapshot_list_done(&pair->there);
	assert_ok(repo_snapshot_list(pair->to->repo, &pair->there, &err), &err);
	assert_ok(backup_copy_snapshot(pair->from->repo, pair->to->repo, pair->snapshot,
				       &pair->there, 2, NULL, &result, &err),
		  &err);
	return result;
}

static void verify_copy(struct pair *pair)
{
	struct cairn_err err = {0};

	repofix_open(pair->to, REPO_LOCK_SHARED);
	repo_snapshot_list_done(&pair->there);
	assert_ok(repo_snapshot_list(pair->to->repo, &pair->there, &err), &err);
	assert_int_equal(pair->there.n, 1);
	assert_int_equal(repofix_problems(pair->to->repo, true), 0);
	repofix_verify(pair->to->repo, &pair->there.items[0]->id, 1, CHUNKS);
}

static void a_copy_is_whole_and_is_made_once(void **state)
{
	struct pair pair = open_pair();
	struct copy_result result = copy(&pair);

	(void)state;
	assert_false(result.there);
	assert_int_equal(result.chunks, CHUNKS);
	verify_copy(&pair);
	assert_true(copy(&pair).there);
	close_pair(&pair);
}

static void put_tree(struct pair *pair, const struct repo_id *id)
{
	cairn_auto_free uint8_t *bytes = NULL;
	struct cairn_err err = {0};
	struct repo_id put;
	size_t n;

	assert_ok(repo_blob_get(pair->from->repo, REPO_BLOB_TREE, id, &bytes, &n, &err), &err);
	assert_ok(repo_blob_put(pair->to->repo, REPO_BLOB_TREE, bytes, n, &put, NULL, &err), &err);
}

/* As a copy leaves it that was killed before its last data was sent, or a prune that
 * kept a pack of trees for the sake of another one in it. */
static void trees_that_are_there_say_nothing_of_what_is_below_them(void **state)
{
	struct repo_found_node found = {0};
	struct pair pair = open_pair();
	struct cairn_err err = {0};

	(void)state;
	assert_ok(repo_tree_find(pair.from->repo, &pair.snapshot->tree, "/vol", &found, &err),
		  &err);
	put_tree(&pair, &pair.snapshot->tree);
	put_tree(&pair, &found.node.subtree);
	assert_ok(repo_flush(pair.to->repo, &err), &err);
	repo_found_node_done(&found);
	assert_int_equal(copy(&pair).chunks, CHUNKS);
	verify_copy(&pair);
	close_pair(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_is_whole_and_is_made_once),
		cmocka_unit_test(trees_that_are_there_say_nothing_of_what_is_below_them),
	};

	return cmocka_run_group_tests_name("backup/copy", tests, NULL, NULL);
}
