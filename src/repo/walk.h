/* SPDX-License-Identifier: Apache-2.0 */

/* Marks all blobs that snapshots reach. */
#ifndef CAIRN_REPO_WALK_H
#define CAIRN_REPO_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"

struct cairn_err;
struct repo;

struct repo_walk {
	struct repo *repo;
	/* Called for missing or damaged objects. Return 0 to continue. */
	int (*problem)(void *arg, int code, const char *text, struct cairn_err *err);
	/* True for a file whose content may be missing: then `problem` is not called, and `lacking`
	 * counts it. NULL: none may be. */
	bool (*may_lack)(void *arg, const char *name);
	void *arg;
	uint64_t trees, files, lacking;
	/* internal */
	uint64_t *marks; /* a bit for each entry of the index */
	uint32_t entries;
	struct repo_id *stack;
	size_t depth, cap;
	uint64_t sum; /* of the file being read */
	bool broken;  /* a piece of it is missing */
	bool may;     /* it may */
	bool missing; /* a blob or tree is in no index */
};

/* The index must be loaded, and must not grow while the walk is used. */
int repo_walk_init(struct repo_walk *walk, struct repo *repo, struct cairn_err *err);
void repo_walk_done(struct repo_walk *walk);

/* Marks the tree and everything below it; marked trees are not read again. */
int repo_walk_tree(struct repo_walk *walk, const struct repo_id *root, struct cairn_err *err);

bool repo_walk_marked(const struct repo_walk *walk, uint32_t entry);

/* Moves the mark of a blob to another copy of it. */
void repo_walk_move_mark(struct repo_walk *walk, uint32_t from, uint32_t to);

#endif
