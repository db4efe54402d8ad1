/* SPDX-License-Identifier: Apache-2.0 */

/* Finds the files of snapshots that cannot be restored any more. */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/check_impl.h"
#include "repo/repo_impl.h"
#include "repo/repo_snapshot.h"
#include "repo/tree.h"

#define DIRECTORIES_MAX ((size_t)1 << 24)

struct directory {
	char *path;
	struct repo_id tree;
};

struct surveying {
	struct repo_checking *checking;
	const struct repo_snapshot *snapshot;
	struct directory *stack; /* directories still to be read */
	size_t depth, cap;
	const char *path; /* of the directory being read */
	bool found;       /* a part of the snapshot is lost */
	/* The file being read. */
	struct repo_damage file;
	uint64_t offset;
	uint64_t unknown; /* number of blobs whose size is unknown */
};

static void surveying_done(struct surveying *surveying)
{
	while (surveying->depth > 0)
		free(surveying->stack[--surveying->depth].path);
	free(surveying->stack);
}

static int push_directory(struct surveying *surveying, const char *name, const struct repo_id *tree,
			  struct cairn_err *err)
{
	char *path;

	if (surveying->depth == surveying->cap) {
		size_t cap = surveying->cap ? surveying->cap * 2 : 64;
		void *stack = cap > DIRECTORIES_MAX
				      ? NULL
				      : cairn_realloc_array(surveying->stack, cap,
							    sizeof(*surveying->stack));

		if (!stack)
			return cairn_err_nomem(err, "directories to read");
		surveying->stack = stack;
		surveying->cap = cap;
	}
	path = surveying->path ? cairn_printf("%s/%s", surveying->path, name) : cairn_strdup(name);
	if (!path)
		return cairn_err_nomem(err, "a path");
	surveying->stack[surveying->depth++] = (struct directory){path, *tree};
	return 0;
}

static int check_damage_tell_damage(struct surveying *surveying, struct repo_damage *damage,
				    const char *name, struct cairn_err *err)
{
	const struct repo_check_options *options = surveying->checking->options;
	cairn_auto_free char *path = name ? cairn_printf("%s/%s", surveying->path, name) : NULL;

	if (name && !path)
		return cairn_err_nomem(err, "a path");
	damage->snapshot = surveying->snapshot;
	damage->path = path ? path : surveying->path[0] ? surveying->path : "/";
	surveying->found = true;
	options->damage(options->arg, damage);
	return 0;
}

static void check_damage_add_range(struct surveying *surveying, uint64_t offset, uint64_t length)
{
	struct repo_damage *file = &surveying->file;
	struct repo_range *last = file->n_ranges ? &file->ranges[file->n_ranges - 1] : NULL;

	if (last && file->more_ranges == 0 && last->offset + last->length == offset)
		last->length += length;
	else if (file->n_ranges < REPO_DAMAGE_RANGES)
		file->ranges[file->n_ranges++] = (struct repo_range){offset, length};
	else
		file->more_ranges++;
}

static int enter_node(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct surveying *surveying = arg;

	surveying->file = (struct repo_damage){.size = node->size};
	surveying->offset = 0;
	surveying->unknown = 0;
	return node->type == REPO_NODE_DIR
		       ? push_directory(surveying, node->name, &node->subtree, err)
		       : 0;
}

static int survey_content(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct surveying *surveying = arg;

	(void)err;
	for (size_t i = 0; i < n; i++) {
		uint64_t size;
		bool there = repo_check_has_blob(surveying->checking, REPO_BLOB_DATA, &ids[i], true,
						 &size);

		if (!there && size == 0)
			surveying->unknown++;
		else if (!there && surveying->unknown == 0)
			check_damage_add_range(surveying, surveying->offset, size);
		if (!there)
			surveying->file.lost += size;
		surveying->offset += size;
	}
	return 0;
}

static int leave_node(void *arg, const struct repo_node *node, struct cairn_err *err)
{
	struct surveying *surveying = arg;
	struct repo_damage *file = &surveying->file;

	if (node->type != REPO_NODE_FILE)
		return 0;
	file->content = surveying->offset;
	file->unknown = surveying->unknown > 0;
	if (file->unknown && file->size > surveying->offset) {
		file->lost += file->size - surveying->offset;
		file->content = file->size;
	}
	return file->lost > 0 || file->unknown || file->content != file->size
		       ? check_damage_tell_damage(surveying, file, node->name, err)
		       : 0;
}

static int survey_directory(struct surveying *surveying, const struct repo_id *tree,
			    struct cairn_err *err)
{
	const struct repo_tree_visitor visitor = {.node = enter_node,
						  .content = survey_content,
						  .node_end = leave_node,
						  .arg = surveying};
	struct repo_damage lost = {.directory = true};
	struct cairn_err why = {0};
	int rc = repo_tree_read(surveying->checking->repo, tree, &visitor, &why);

	if (rc == CAIRN_DATA_LOSS || rc == CAIRN_NOT_FOUND)
		return check_damage_tell_damage(surveying, &lost, NULL, err);
	return rc < 0 ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

static int survey_snapshot(struct repo_checking *checking, const struct repo_id *id,
			   struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_cleanup(surveying_done) struct surveying surveying = {.checking = checking};
	struct cairn_err why = {0};
	int rc = repo_snapshot_load(checking->repo, id, &snapshot, &why);

	if (rc == CAIRN_DATA_LOSS || rc == CAIRN_NOT_FOUND || rc == CAIRN_RANGE)
		return 0; /* already reported */
	if (rc < 0)
		return cairn_err_set(err, rc, "%s", why.msg);
	surveying.snapshot = snapshot;
	rc = push_directory(&surveying, "", &snapshot->tree, err);
	while (rc == 0 && surveying.depth > 0) {
		struct directory directory = surveying.stack[--surveying.depth];

		surveying.path = directory.path;
		rc = repo_go_on(checking->repo, err);
		if (rc == 0)
			rc = survey_directory(&surveying, &directory.tree, err);
		free(directory.path);
	}
	checking->stats.snapshots_damaged += surveying.found;
	return rc;
}

int repo_check_damage(struct repo_checking *checking, struct cairn_err *err)
{
	const struct repo_names *names = &checking->snapshots;
	int rc = 0;

	if (checking->options->snapshot)
		return survey_snapshot(checking, checking->options->snapshot, err);
	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		repo_check_progress(checking, "damage", i, names->n);
		rc = survey_snapshot(checking, &names->items[i].name, err);
	}
	return rc;
}
