/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/copy_snapshot.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backup/worker_pool.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/presence.h"
#include "repo/repo_snapshot.h"
#include "repo/tree.h"

#define BATCH 256U

struct ids {
	struct repo_id *at;
	size_t n;
	size_t room;
};

struct copying {
	struct repo *from;
	struct repo *to;
	struct ids data;         /* blobs that `to` lacks */
	struct ids trees;        /* in the order of storing: children before parents */
	struct repo_index *seen; /* trees already walked; snapshots of files share many */
	uint64_t bytes;
	size_t next;
	unsigned depth;
	atomic_ullong chunks_done;
};

static int copy_snapshot_add(struct ids *ids, const struct repo_id *id, struct cairn_err *err)
{
	if (ids->n == ids->room) {
		size_t room = ids->room ? 2 * ids->room : 1024;
		void *more = cairn_realloc_array(ids->at, room, sizeof(*ids->at));

		if (!more)
			return cairn_err_nomem(err, "list of chunks");
		ids->at = more;
		ids->room = room;
	}
	ids->at[ids->n++] = *id;
	return 0;
}

static int add_data(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct copying *copying = arg;
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		uint64_t size;

		if (repo_blob_has(copying->to, REPO_BLOB_DATA, &ids[i]))
			continue;
		rc = repo_blob_size(copying->from, REPO_BLOB_DATA, &ids[i], &size, err);
		if (!rc)
			rc = copy_snapshot_add(&copying->data, &ids[i], err);
	}
	return rc;
}

static int copy_snapshot_walk(struct copying *copying, const struct repo_id *tree,
			      struct cairn_err *err);

static int copy_snapshot_add_node(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	return node->type == REPO_NODE_DIR ? copy_snapshot_walk(arg, &node->subtree, err) : 0;
}

/* Also walks below trees that exist in the destination: a killed copy or a prune
 * may have left trees without their data. */
static int copy_snapshot_walk(struct copying *copying, const struct repo_id *tree,
			      struct cairn_err *err)
{
	struct repo_tree_visitor visitor = {
		.node = copy_snapshot_add_node, .content = add_data, .arg = copying};
	uint32_t entry;
	bool known;
	int rc = repo_index_reserve(copying->seen, REPO_BLOB_TREE, tree, &entry, &known, err);

	if (rc || known)
		return rc;
	if (copying->depth == COPY_DEPTH_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "directories are too deep");
	copying->depth++;
	rc = repo_tree_read(copying->from, tree, &visitor, err);
	copying->depth--;
	return rc ? rc : copy_snapshot_add(&copying->trees, tree, err);
}

static int copy_snapshot_by_id(const void *a, const void *b)
{
	return repo_id_compare(a, b);
}

/* Removes duplicates. The order does not matter, because reading is ordered by the source's
 * packs. */
static int copy_snapshot_unique(struct copying *copying, struct cairn_err *err)
{
	struct ids *ids = &copying->data;
	size_t n = 0;

	if (ids->n > 0)
		qsort(ids->at, ids->n, sizeof(*ids->at), copy_snapshot_by_id);
	for (size_t i = 0; i < ids->n; i++) {
		uint64_t size = 0;
		int rc;

		if (n > 0 && repo_id_equal(&ids->at[n - 1], &ids->at[i]))
			continue;
		rc = repo_blob_size(copying->from, REPO_BLOB_DATA, &ids->at[i], &size, err);
		if (rc)
			return rc;
		copying->bytes += size;
		ids->at[n++] = ids->at[i];
	}
	ids->n = n;
	return 0;
}

static bool copy_snapshot_take(void *arg, struct worker_task *task)
{
	struct copying *copying = arg;
	size_t left = copying->data.n - copying->next;

	if (left == 0)
		return false;
	*task = (struct worker_task){.first = copying->next};
	copying->next += left < BATCH ? left : BATCH;
	task->end = copying->next;
	for (size_t i = task->first; i < task->end; i++) {
		uint64_t size = 0;

		(void)repo_blob_size(copying->from, REPO_BLOB_DATA, &copying->data.at[i], &size,
				     NULL);
		task->bytes += size;
	}
	return true;
}

static int copy_snapshot_put(void *arg, size_t i, const uint8_t *data, size_t n,
			     struct cairn_err *err)
{
	struct copying *copying = arg;
	struct repo_id id;

	(void)i;
	atomic_fetch_add(&copying->chunks_done, 1);
	return repo_blob_put(copying->to, REPO_BLOB_DATA, data, n, &id, NULL, err);
}

static int copy_snapshot_work(void *arg, void *worker, const struct worker_task *task,
			      struct cairn_err *err)
{
	struct copying *copying = arg;

	(void)worker;
	return repo_blob_get_many(copying->from, copying->data.at + task->first,
				  task->end - task->first, copy_snapshot_put, copying, err);
}

static int put_trees(struct copying *copying, struct cairn_err *err)
{
	for (size_t i = 0; i < copying->trees.n; i++) {
		cairn_auto_free uint8_t *data = NULL;
		struct repo_id id;
		size_t n;
		int rc;

		if (repo_blob_has(copying->to, REPO_BLOB_TREE, &copying->trees.at[i]))
			continue;
		rc = repo_blob_get(copying->from, REPO_BLOB_TREE, &copying->trees.at[i], &data, &n,
				   err);
		if (!rc)
			rc = repo_blob_put(copying->to, REPO_BLOB_TREE, data, n, &id, NULL, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int copy_snapshot_save(struct copying *copying, const struct repo_snapshot *snapshot,
			      struct cairn_err *err)
{
	struct repo_snapshot copy = *snapshot;
	struct repo_id id;

	/* As restic does: the copy has no parent, and "original" names the first snapshot. */
	copy.has_parent = false;
	if (!copy.has_original) {
		copy.has_original = true;
		copy.original = snapshot->id;
	}
	copy.owned = NULL;
	return repo_snapshot_save(copying->to, &copy, &id, err);
}

/* Compares the origins of both: the "original", or else the id. */
static bool is_there(const struct repo_snapshot *snapshot, const struct repo_snapshot_list *there)
{
	const struct repo_id *origin = snapshot->has_original ? &snapshot->original : &snapshot->id;

	for (size_t i = 0; i < there->n; i++) {
		const struct repo_snapshot *other = there->items[i];
		const struct repo_id *its = other->has_original ? &other->original : &other->id;

		if (repo_id_equal(its, origin) && repo_id_equal(&other->tree, &snapshot->tree))
			return true;
	}
	return false;
}

int backup_copy_snapshot(struct repo *from, struct repo *to, const struct repo_snapshot *snapshot,
			 const struct repo_snapshot_list *there, unsigned threads,
			 const struct backup_progress *progress, struct copy_result *ret,
			 struct cairn_err *err)
{
	cairn_cleanup(repo_index_freep) struct repo_index *seen = NULL;
	struct copying copying = {.from = from, .to = to};
	struct worker_pool pool = {
		.take = copy_snapshot_take,
		.work = copy_snapshot_work,
		.arg = &copying,
		.step = "copying",
		.progress = progress,
	};
	int rc;

	*ret = (struct copy_result){.there = is_there(snapshot, there)};
	if (ret->there && !repo_has_lost_packs(to))
		return 0;
	copying.seen = seen = repo_index_new();
	if (!seen)
		return cairn_err_nomem(err, "copy");
	rc = copy_snapshot_walk(&copying, &snapshot->tree, err);
	if (!rc)
		rc = copy_snapshot_unique(&copying, err);
	pool.total = copying.bytes;
	if (!rc && copying.data.n > 0)
		rc = backup_worker_pool_run(&pool, threads, err);
	if (!rc)
		rc = put_trees(&copying, err);
	if (!rc)
		rc = ret->there ? repo_flush(to, err) : copy_snapshot_save(&copying, snapshot, err);
	ret->chunks = copying.data.n;
	ret->bytes = copying.bytes;
	free(copying.data.at);
	free(copying.trees.at);
	return rc;
}
