/* SPDX-License-Identifier: Apache-2.0 */

/* Trees: directories and their entries.
 *
 * A tree is one blob of JSON: a list of nodes, sorted by name. A file's node
 * holds the ids of its content, a quarter of a million for a large volume, so it
 * is written and read as a stream and is never a tree of objects in memory. The
 * bytes are exactly those that restic would write.
 *
 * A writer or a reader belongs to one thread.
 */
#ifndef CAIRN_REPO_TREE_H
#define CAIRN_REPO_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"

struct cairn_err;
struct repo;
struct repo_tree_writer;

enum repo_node_type {
	REPO_NODE_FILE,
	REPO_NODE_DIR,
	REPO_NODE_SYMLINK,
	REPO_NODE_OTHER, /* devices, sockets, …: read only */
};

/* Names may contain any bytes but NUL and '/'. Strings from a reader are valid
 * until its callback returns. */
struct repo_node {
	const char *name;
	enum repo_node_type type;
	uint32_t mode; /* permission bits, 07777 */
	int64_t mtime_ns, atime_ns, ctime_ns;
	uint32_t uid, gid;
	const char *user, *group; /* or NULL */
	uint64_t inode;           /* must differ between nodes */
	uint64_t device_id;
	uint64_t size;  /* files */
	uint64_t links; /* files: 1 */
	const char *link_target;
	struct repo_id subtree; /* directories */
};

#define REPO_NAME_MAX 4096

int repo_tree_writer_new(struct repo *repo, struct repo_tree_writer **ret, struct cairn_err *err);

/* Accepts NULL; an unfinished tree is dropped. Call before the repository is
 * closed. */
void repo_tree_writer_free(struct repo_tree_writer *writer);
CAIRN_DEFINE_CLEANUP(struct repo_tree_writer, repo_tree_writer_free);

/* Adds a directory or a symbolic link. Names must ascend by their bytes.
 *
 * CAIRN_INVALID    name empty, "." or "..", with '/', or out of order
 * CAIRN_NOT_FOUND  the subtree is not in the repository
 */
int repo_tree_writer_add(struct repo_tree_writer *writer, const struct repo_node *node,
			 struct cairn_err *err);

/* The same for a subtree that the caller knows to be in the repository. */
int repo_tree_writer_add_known(struct repo_tree_writer *writer, const struct repo_node *node,
			       struct cairn_err *err);

/* Adds a file: begin, content in order and in any number of parts, end. A blob
 * that is not in the repository, or lengths that do not add up to node->size,
 * are errors: such a file would be restored incorrectly and no check would
 * detect it.
 *
 * CAIRN_NOT_FOUND  a blob is not in the repository
 * CAIRN_INVALID    the lengths do not add up (end), or as above
 */
int repo_tree_writer_file_begin(struct repo_tree_writer *writer, const struct repo_node *node,
				struct cairn_err *err);
int repo_tree_writer_content(struct repo_tree_writer *writer, const struct repo_id *ids, size_t n,
			     struct cairn_err *err);
/* A blob that the caller has found in the index in this process, with that size, or has
 * put. */
int repo_tree_writer_content_known(struct repo_tree_writer *writer, const struct repo_id *id,
				   uint64_t size, struct cairn_err *err);
int repo_tree_writer_file_end(struct repo_tree_writer *writer, struct cairn_err *err);

/* Stores the tree; the writer can only be freed afterwards. */
int repo_tree_writer_finish(struct repo_tree_writer *writer, struct repo_id *ret_id,
			    struct cairn_err *err);

/* Callbacks of a reader; each may be NULL. A negative return ends the reading
 * and is returned, and so is a positive one, which can be used to stop
 * early. */
struct repo_tree_visitor {
	/* Before the content of a file; for a directory node->subtree is set.
	 * Fields that follow the content in the bytes (other programs may write
	 * them so) are set as well, because nodes are scanned twice. */
	int (*node)(void *arg, const struct repo_node *node, struct cairn_err *err);
	/* The ids of the file just announced, in order, in parts. */
	int (*content)(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err);
	/* The file's content is complete. */
	int (*node_end)(void *arg, const struct repo_node *node, struct cairn_err *err);
	void *arg;
};

/* Reads the tree, one level.
 *
 * CAIRN_DATA_LOSS  damaged, missing, or not a tree; or the visitor returned CAIRN_NOT_FOUND: a blob
 *                  that the tree refers to is missing
 */
int repo_tree_read(struct repo *repo, const struct repo_id *tree,
		   const struct repo_tree_visitor *visitor, struct cairn_err *err);

/* The same for bytes in memory: the pure half, for tests and fuzzing. */
int repo_tree_parse(const char *json, size_t n, const struct repo_tree_visitor *visitor,
		    struct cairn_err *err);

/* Finds the node at `path` ("/a/b"), its strings valid until *ret_names is
 * freed, and the tree that contains it, for repo_tree_read_content().
 *
 * CAIRN_NOT_FOUND  no such path
 */
struct repo_found_node {
	struct repo_node node;
	struct repo_id tree; /* the directory it is in */
	char *names;         /* owns the strings of `node` */
};
void repo_found_node_done(struct repo_found_node *found);
int repo_tree_find(struct repo *repo, const struct repo_id *root, const char *path,
		   struct repo_found_node *ret, struct cairn_err *err);

/* The content of the file `name` in the tree, in parts and in order. */
int repo_tree_read_content(struct repo *repo, const struct repo_id *tree, const char *name,
			   int (*content)(void *arg, const struct repo_id *ids, size_t n,
					  struct cairn_err *err),
			   void *arg, struct cairn_err *err);

#endif
