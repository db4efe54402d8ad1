/* SPDX-License-Identifier: Apache-2.0 */

#include <stdbool.h>
#include <unistd.h>

#include "backup/content.h"
#include "backup/segment.h"
#include "backup/segment_impl.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "repo/tree.h"

/* Nothing in a node may depend on the backup or its time, or unchanged segments would get
 * new trees. Segments of zeros share one inode number. */
enum { INODE_DIR = 3, INODE_ZEROS = 4, INODE_FIRST = 16 };

static struct repo_node segment_write_node_of(const char *name, bool dir)
{
	return (struct repo_node){
		.name = name,
		.type = dir ? REPO_NODE_DIR : REPO_NODE_FILE,
		.mode = dir ? 0700 : 0600,
		.uid = getuid(),
		.gid = getgid(),
		.inode = INODE_DIR,
		.links = dir ? 0 : 1,
	};
}

int backup_segment_save(struct repo *repo, struct zeros *zeros, uint64_t number,
			const struct chunk *chunks, size_t n, struct repo_id *ret,
			struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	struct repo_node node = segment_write_node_of(SEGMENT_FILE_NAME, false);
	struct content content = {.chunks = chunks, .n = n, .longest = ZEROS_USUAL, .sparse = true};
	int rc;

	for (size_t i = 0; i < n; i++) {
		node.size += chunks[i].length;
		content.sparse &= chunks[i].kind == CHUNK_ZERO; /* zeros only */
	}
	node.inode = content.sparse ? INODE_ZEROS : INODE_FIRST + number;
	rc = repo_tree_writer_new(repo, &writer, err);
	if (!rc)
		rc = repo_tree_writer_file_begin(writer, &node, err);
	if (!rc)
		rc = backup_content_save(repo, &content, zeros, writer, err);
	if (!rc)
		rc = repo_tree_writer_file_end(writer, err);
	return rc ? rc : repo_tree_writer_finish(writer, ret, err);
}

/* All trees exist: they were just stored, or belong to an intact parent. */
static int save_directory(struct repo *repo, unsigned digits, const struct repo_id *ids, size_t n,
			  struct repo_id *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	int rc = repo_tree_writer_new(repo, &writer, err);

	for (size_t i = 0; i < n && !rc; i++) {
		char name[SEGMENT_NAME_MAX];
		struct repo_node node = segment_write_node_of(name, true);

		backup_segment_name(digits, i, name);
		node.subtree = ids[i];
		rc = repo_tree_writer_add_known(writer, &node, err);
	}
	return rc ? rc : repo_tree_writer_finish(writer, ret, err);
}

int backup_segment_save_groups(struct repo *repo, const struct repo_id *groups, size_t n,
			       struct repo_id *ret, struct cairn_err *err)
{
	return save_directory(repo, SEGMENT_GROUP_DIGITS, groups, n, ret, err);
}

int backup_segment_save_group(struct repo *repo, const struct repo_id *leaves, size_t n,
			      struct repo_id *ret, struct cairn_err *err)
{
	return save_directory(repo, SEGMENT_LEAF_DIGITS, leaves, n, ret, err);
}
