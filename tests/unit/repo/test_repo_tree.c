/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "repo/blob.h"
#include "repo/tree.h"
#include "repofix.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct repo_id put_text(struct repo *repo, const char *text)
{
	struct repo_id id;

	assert_int_equal(repo_blob_put(repo, REPO_BLOB_DATA, text, strlen(text), &id, NULL, NULL),
			 0);
	return id;
}

static void add_file(struct repo_tree_writer *writer, const char *name, const struct repo_id *id,
		     uint64_t size)
{
	struct repo_node node = {.name = name,
				 .type = REPO_NODE_FILE,
				 .mode = 04755,
				 .mtime_ns = 1794797084120000000,
				 .uid = 3,
				 .user = "u",
				 .inode = 9,
				 .size = size,
				 .links = 1};
	struct cairn_err err = {0};

	assert_ok(repo_tree_writer_file_begin(writer, &node, &err), &err);
	assert_ok(repo_tree_writer_content(writer, id, 1, &err), &err);
	assert_ok(repo_tree_writer_file_end(writer, &err), &err);
}

/* Checked with `restic rewrite`, which refuses any other byte. */
static void a_tree_has_exactly_the_bytes_that_restic_writes(void **state)
{
	static const char want[] =
		"{\"nodes\":[{\"name\":\"a\\u0026\\\\\\\"\",\"type\":\"file\",\"mode\":8389101,"
		"\"mtime\":\"2026-11-16T02:44:44.12Z\",\"atime\":\"1970-01-01T00:00:00Z\","
		"\"ctime\":\"1970-01-01T00:00:00Z\",\"uid\":3,\"gid\":0,\"user\":\"u\",\"inode\":9,"
		"\"size\":3,\"links\":1,\"content\":["
		"\"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"]},"
		"{\"name\":\"l\",\"type\":\"symlink\",\"mode\":134218239,"
		"\"mtime\":\"1970-01-01T00:00:00Z\",\"atime\":\"1970-01-01T00:00:00Z\","
		"\"ctime\":\"1970-01-01T00:00:00Z\",\"uid\":0,\"gid\":0,\"linktarget\":\"x/y\","
		"\"content\":null}]}\n";
	struct repo_node link = {
		.name = "l", .type = REPO_NODE_SYMLINK, .mode = 0777, .link_target = "x/y"};
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	cairn_auto_free uint8_t *json = NULL;
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct repo_id id, tree;
	size_t n;

	repofix_open(fix, REPO_LOCK_SHARED);
	id = put_text(fix->repo, "abc");
	assert_ok(repo_tree_writer_new(fix->repo, &writer, &err), &err);
	add_file(writer, "a&\"", &id, 3);
	assert_ok(repo_tree_writer_add(writer, &link, &err), &err);
	assert_ok(repo_tree_writer_finish(writer, &tree, &err), &err);
	assert_ok(repo_flush(fix->repo, &err), &err);
	assert_ok(repo_blob_get(fix->repo, REPO_BLOB_TREE, &tree, &json, &n, &err), &err);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(json, want, n);
}

static void names_that_cannot_be_are_refused(void **state)
{
	static const char *const names[] = {"", ".", "..", "a/b", "b", "a"};
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	struct repofix *fix = *state;
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_SHARED);
	id = put_text(fix->repo, "abc");
	assert_int_equal(repo_tree_writer_new(fix->repo, &writer, NULL), 0);
	add_file(writer, "b", &id, 3);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct repo_node node = {.name = names[i], .type = REPO_NODE_FILE};

		assert_code(repo_tree_writer_file_begin(writer, &node, NULL), CAIRN_INVALID);
	}
	add_file(writer, "c", &id, 3);
}

/* ---- many chunks ---------------------------------------------------------------- */

#define MANY 200000U

struct counting {
	uint64_t n;
	bool alternate;
	struct repo_id ids[2];
};

static int count(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct counting *counting = arg;

	(void)err;
	for (size_t i = 0; i < n; i++)
		assert_true(repo_id_equal(&ids[i], &counting->ids[counting->n++ % 2]));
	return 0;
}

static void a_file_of_many_chunks_is_streamed_both_ways(void **state)
{
	struct repo_node node = {.name = "big", .type = REPO_NODE_FILE, .inode = 1};
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {0};
	struct repofix *fix = *state;
	struct counting counting = {0};
	struct cairn_err err = {0};
	struct repo_id tree;

	repofix_open(fix, REPO_LOCK_SHARED);
	counting.ids[0] = put_text(fix->repo, "abc");
	counting.ids[1] = put_text(fix->repo, "defgh");
	node.size = (uint64_t)MANY / 2 * 8;
	assert_ok(repo_tree_writer_new(fix->repo, &writer, &err), &err);
	assert_ok(repo_tree_writer_file_begin(writer, &node, &err), &err);
	for (unsigned i = 0; i < MANY / 2; i++)
		assert_ok(repo_tree_writer_content(writer, counting.ids, 2, &err), &err);
	assert_ok(repo_tree_writer_file_end(writer, &err), &err);
	assert_ok(repo_tree_writer_finish(writer, &tree, &err), &err);
	repo_tree_writer_free(cairn_take(writer));
	assert_ok(repo_flush(fix->repo, &err), &err);
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repo_tree_find(fix->repo, &tree, "/big", &found, &err), &err);
	assert_true(found.node.size == node.size);
	assert_ok(repo_tree_read_content(fix->repo, &tree, "big", count, &counting, &err), &err);
	assert_int_equal(counting.n, MANY);
}

/* ---- reading -------------------------------------------------------------------- */

static int note_name(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	char *out = arg;

	(void)err;
	snprintf(out + strlen(out), 200 - strlen(out), "%s/%d/%o ", node->name, (int)node->type,
		 node->mode);
	return 0;
}

static void fields_may_come_in_any_order_and_be_unknown(void **state)
{
	static const char json[] =
		"{\"x\":1,\"nodes\":[{\"content\":[\"" HEX "\"],\"new\":{\"a\":[]},\"size\":5,"
		"\"mode\":1048576,\"type\":\"file\",\"name\":\"f\\\\n\"},"
		"{\"name\":\"d\",\"type\":\"dir\",\"subtree\":\"" HEX "\",\"mode\":2147484141},"
		"{\"name\":\"s\",\"type\":\"socket\"}]}";
	const struct repo_tree_visitor visitor = {.node = note_name, .arg = (char[200]){0}};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(repo_tree_parse(json, strlen(json), &visitor, &err), &err);
	assert_string_equal(visitor.arg, "f\n/0/1000 d/1/755 s/3/0 ");
}

static void what_is_no_tree_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		"{}",
		"[]",
		"{\"nodes\":[{}]}",
		"{\"nodes\":[{\"name\":\"\",\"type\":\"file\"}]}",
		"{\"nodes\":[{\"name\":\"a/b\",\"type\":\"file\"}]}",
		"{\"nodes\":[{\"name\":\"..\",\"type\":\"file\"}]}",
		"{\"nodes\":[{\"name\":\"a\\\\x00b\",\"type\":\"file\"}]}",
		"{\"nodes\":[{\"name\":\"a\\\\q\",\"type\":\"file\"}]}",
		"{\"nodes\":[{\"name\":\"a\",\"type\":\"dir\"}]}",
		"{\"nodes\":[{\"name\":\"a\",\"type\":\"file\",\"content\":[\"12\"]}]}",
		"{\"nodes\":[{\"name\":\"a\",\"type\":\"file\",\"uid\":4294967296}]}",
		"{\"nodes\":[{\"name\":\"a\",\"type\":\"file\",\"mtime\":\"now\"}]}",
		"{\"nodes\":[]} x",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct counting counting = {0};
		const struct repo_tree_visitor visitor = {.content = count, .arg = &counting};

		if (repo_tree_parse(cases[i], strlen(cases[i]), &visitor, NULL) != CAIRN_DATA_LOSS)
			fail_msg("%s", cases[i]);
	}
}

static void what_is_not_there_is_not_found(void **state)
{
	static const char *const paths[] = {"/", "", "/vol/none", "/none", "/vol/data/x"};
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	struct repofix *fix = *state;
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(repofix_backup(fix->repo, 1, 3, &id, &err), &err);
	assert_ok(repo_snapshot_load(fix->repo, &id, &snapshot, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct repo_found_node found;

		assert_code(repo_tree_find(fix->repo, &snapshot->tree, paths[i], &found, NULL),
			    CAIRN_NOT_FOUND);
	}
	assert_code(repo_tree_read_content(fix->repo, &snapshot->tree, "vol", count, NULL, NULL),
		    CAIRN_NOT_FOUND);
	/* A tree that something refers to is lost. */
	snapshot->tree.bytes[0] ^= 1;
	assert_code(repo_tree_find(fix->repo, &snapshot->tree, "/vol", &(struct repo_found_node){0},
				   NULL),
		    CAIRN_DATA_LOSS);
}

#define with_repo(test) cmocka_unit_test_setup_teardown(test, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_repo(a_tree_has_exactly_the_bytes_that_restic_writes),
		with_repo(names_that_cannot_be_are_refused),
		with_repo(a_file_of_many_chunks_is_streamed_both_ways),
		cmocka_unit_test(fields_may_come_in_any_order_and_be_unknown),
		cmocka_unit_test(what_is_no_tree_is_refused),
		with_repo(what_is_not_there_is_not_found),
	};

	return cmocka_run_group_tests_name("repo/tree", tests, NULL, NULL);
}
