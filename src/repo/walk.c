/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/repo_impl.h"
#include "repo/tree.h"

#define STACK_MAX ((size_t)1 << 24)

int repo_walk_init(struct repo_walk *walk, struct repo *repo, struct cairn_err *err)
{
	*walk = (struct repo_walk){.repo = repo, .entries = repo_index_entries(repo->index)};
	walk->marks = cairn_calloc(walk->entries / 64 + 1, sizeof(*walk->marks));
	return walk->marks ? 0 : cairn_err_nomem(err, "marks");
}

void repo_walk_done(struct repo_walk *walk)
{
	free(walk->marks);
	free(walk->stack);
	walk->marks = NULL;
	walk->stack = NULL;
}

bool repo_walk_marked(const struct repo_walk *walk, uint32_t entry)
{
	return walk->marks[entry / 64] >> (entry % 64) & 1;
}

void repo_walk_move_mark(struct repo_walk *walk, uint32_t from, uint32_t to)
{
	walk->marks[from / 64] &= ~((uint64_t)1 << (from % 64));
	walk->marks[to / 64] |= (uint64_t)1 << (to % 64);
}

/* False when there is no such blob; *ret_new when it was not marked before. */
static bool walk_mark(struct repo_walk *walk, enum repo_blob_type type, const struct repo_id *id,
		      bool *ret_new)
{
	uint32_t entry;

	if (!repo_index_entry(walk->repo->index, type, id, &entry) || entry >= walk->entries)
		return false;
	*ret_new = !repo_walk_marked(walk, entry);
	walk->marks[entry / 64] |= (uint64_t)1 << (entry % 64);
	return true;
}

static int walk_push(struct repo_walk *walk, const struct repo_id *tree, struct cairn_err *err)
{
	if (walk->depth == walk->cap) {
		size_t cap = walk->cap ? walk->cap * 2 : 64;
		struct repo_id *stack =
			cap > STACK_MAX ? NULL
					: cairn_realloc_array(walk->stack, cap, sizeof(*stack));

		if (!stack)
			return cairn_err_nomem(err, "trees to read");
		walk->stack = stack;
		walk->cap = cap;
	}
	walk->stack[walk->depth++] = *tree;
	return 0;
}

static int walk_node(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct repo_walk *walk = arg;

	walk->sum = 0;
	walk->broken = false;
	walk->may = node->type == REPO_NODE_FILE && walk->may_lack &&
		    walk->may_lack(walk->arg, node->name);
	return node->type == REPO_NODE_DIR ? walk_push(walk, &node->subtree, err) : 0;
}

static int walk_content(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct repo_walk *walk = arg;
	char hex[REPO_ID_TEXT_MAX], text[160];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		uint64_t size = 0;
		bool fresh;

		if (walk_mark(walk, REPO_BLOB_DATA, &ids[i], &fresh) &&
		    repo_blob_size(walk->repo, REPO_BLOB_DATA, &ids[i], &size, err) == 0) {
			walk->sum += size;
			continue;
		}
		if (walk->broken) /* report a file only once */
			continue;
		walk->broken = true;
		walk->lacking += walk->may;
		if (walk->may)
			continue;
		walk->missing = true;
		snprintf(text, sizeof(text), "blob %s, which a file needs, is in no index",
			 repo_id_format(&ids[i], hex));
		rc = walk->problem(walk->arg, CAIRN_DATA_LOSS, text, err);
	}
	return rc;
}

static int node_end(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct repo_walk *walk = arg;
	char text[160];

	if (node->type != REPO_NODE_FILE)
		return 0;
	walk->files++;
	if (walk->broken || walk->sum == node->size)
		return 0;
	snprintf(text, sizeof(text), "file '%.60s' has %" PRIu64 " bytes, its content %" PRIu64,
		 node->name, node->size, walk->sum);
	return walk->problem(walk->arg, CAIRN_DATA_LOSS, text, err);
}

static int read_tree(struct repo_walk *walk, const struct repo_id *tree, struct cairn_err *err)
{
	const struct repo_tree_visitor visitor = {
		.node = walk_node, .content = walk_content, .node_end = node_end, .arg = walk};
	char hex[REPO_ID_TEXT_MAX], text[160];
	struct cairn_err why = {0};
	bool fresh = false;
	int rc;

	if (!walk_mark(walk, REPO_BLOB_TREE, tree, &fresh)) {
		walk->missing = true;
		snprintf(text, sizeof(text), "tree %s is in no index", repo_id_format(tree, hex));
		return walk->problem(walk->arg, CAIRN_DATA_LOSS, text, err);
	}
	if (!fresh)
		return 0;
	walk->trees++;
	rc = repo_tree_read(walk->repo, tree, &visitor, &why);
	if (rc == CAIRN_DATA_LOSS)
		return walk->problem(walk->arg, rc, why.msg, err);
	return rc < 0 ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

int repo_walk_tree(struct repo_walk *walk, const struct repo_id *root, struct cairn_err *err)
{
	int rc = walk_push(walk, root, err);

	while (rc == 0 && walk->depth > 0) {
		struct repo_id tree = walk->stack[--walk->depth];

		rc = repo_go_on(walk->repo, err);
		if (rc == 0)
			rc = read_tree(walk, &tree, err);
	}
	return rc;
}
