/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "repofix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "repo/blob.h"
#include "repo/repo_check.h"
#include "repo/tree.h"

struct repo_options repofix_options(const struct repofix *fix, enum repo_lock_kind lock)
{
	return (struct repo_options){.store.location = fix->path,
				     .password = "secret",
				     .password_len = 6,
				     .lock = lock,
				     .lock_pause_ms = 1,
				     .pack_size = 64 << 10,
				     .kdf_n = 2};
}

int repofix_setup(void **state)
{
	struct repofix *fix = calloc(1, sizeof(*fix));
	struct repo_options options;
	struct repo *repo = NULL;
	struct cairn_err err = {0};

	scratch_template(fix->dir, "unit");
	if (!mkdtemp(fix->dir))
		return -1;
	snprintf(fix->path, sizeof(fix->path), "%s/repo", fix->dir);
	options = repofix_options(fix, REPO_LOCK_NONE);
	if (repo_init(&options, &repo, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	repo_close(repo);
	*state = fix;
	return 0;
}

int repofix_teardown(void **state)
{
	struct repofix *fix = *state;
	const char *const argv[] = {"rm", "-rf", fix->dir, NULL};

	repofix_close(fix);
	cairn_run(argv, NULL);
	free(fix);
	return 0;
}

void repofix_close(struct repofix *fix)
{
	repo_close(fix->repo);
	fix->repo = NULL;
}

void repofix_open(struct repofix *fix, enum repo_lock_kind lock)
{
	struct repo_options options = repofix_options(fix, lock);
	struct cairn_err err = {0};

	repofix_close(fix);
	assert_ok(repo_open(&options, &fix->repo, &err), &err);
	assert_ok(repo_load_index(fix->repo, &err), &err);
}

void repofix_bytes(uint64_t seed, uint8_t *out, size_t n)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		out[i] = (uint8_t)x;
	}
}

static int write_file(struct repo_tree_writer *writer, struct repo *repo, uint64_t first, size_t n,
		      struct cairn_err *err)
{
	struct repo_node node = {.name = "data",
				 .type = REPO_NODE_FILE,
				 .mode = 0600,
				 .inode = 1,
				 .links = 1,
				 .size = n * REPOFIX_BLOB};
	uint8_t bytes[REPOFIX_BLOB];
	int rc = repo_tree_writer_file_begin(writer, &node, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct repo_id id;

		repofix_bytes(first + i, bytes, sizeof(bytes));
		rc = repo_blob_put(repo, REPO_BLOB_DATA, bytes, sizeof(bytes), &id, NULL, err);
		if (rc == 0)
			rc = repo_tree_writer_content(writer, &id, 1, err);
	}
	return rc < 0 ? rc : repo_tree_writer_file_end(writer, err);
}

static int write_trees(struct repo *repo, uint64_t first, size_t n, struct repo_id *ret,
		       struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *inner = NULL, *outer = NULL;
	struct repo_node node = {.name = "vol", .type = REPO_NODE_DIR, .mode = 0755, .inode = 2};
	int rc = repo_tree_writer_new(repo, &inner, err);

	if (rc == 0)
		rc = write_file(inner, repo, first, n, err);
	if (rc == 0)
		rc = repo_tree_writer_finish(inner, &node.subtree, err);
	if (rc == 0)
		rc = repo_tree_writer_new(repo, &outer, err);
	if (rc == 0)
		rc = repo_tree_writer_add(outer, &node, err);
	return rc < 0 ? rc : repo_tree_writer_finish(outer, ret, err);
}

int repofix_backup(struct repo *repo, uint64_t first, size_t n, struct repo_id *ret,
		   struct cairn_err *err)
{
	const char *path = "/vol/data";
	struct repo_snapshot snapshot = {
		.time_ns = (int64_t)first, .paths = &path, .n_paths = 1, .username = "root"};
	int rc = write_trees(repo, first, n, &snapshot.tree, err);

	return rc < 0 ? rc : repo_snapshot_save(repo, &snapshot, ret, err);
}

struct verifying {
	struct repo *repo;
	uint64_t next;
	size_t n;
};

static int verify_blob(void *arg, size_t i, const uint8_t *data, size_t n, struct cairn_err *err)
{
	struct verifying *verifying = arg;
	uint8_t want[REPOFIX_BLOB];

	(void)err;
	repofix_bytes(verifying->next + i, want, sizeof(want));
	assert_int_equal(n, sizeof(want));
	assert_memory_equal(data, want, n);
	verifying->n++;
	return 0;
}

static int verify_content(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct verifying *verifying = arg;
	int rc = repo_blob_get_many(verifying->repo, ids, n, verify_blob, verifying, err);

	verifying->next += n;
	return rc;
}

void repofix_verify(struct repo *repo, const struct repo_id *id, uint64_t first, size_t n)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {0};
	struct verifying verifying = {.repo = repo, .next = first};
	struct cairn_err err = {0};

	assert_ok(repo_snapshot_load(repo, id, &snapshot, &err), &err);
	assert_ok(repo_tree_find(repo, &snapshot->tree, "/vol/data", &found, &err), &err);
	assert_true(found.node.size == n * REPOFIX_BLOB);
	assert_ok(
		repo_tree_read_content(repo, &found.tree, "data", verify_content, &verifying, &err),
		&err);
	assert_int_equal(verifying.n, n);
}

int repofix_problems(struct repo *repo, bool read_data)
{
	const struct repo_check_options options = {.read_data = read_data};
	struct repo_check_stats stats;

	return repo_check(repo, &options, &stats, NULL) < 0 ? -1 : (int)stats.problems;
}
