/* SPDX-License-Identifier: Apache-2.0 */

/* Converts the content of a volume's file in a repository to a list of chunks and
 * back. */
#ifndef CAIRN_BACKUP_CONTENT_H
#define CAIRN_BACKUP_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backup/chunk.h"
#include "repo/id.h"

struct cairn_err;
struct repo;
struct repo_tree_writer;
struct zeros;

/* Appends the next part of a file's content from its tree. Lengths come from the index,
 * so a missing chunk is detected here. A lost chunk of known length becomes CHUNK_LOST;
 * zeros whose chunk is lost stay zeros, which can be restored, and are counted in
 * lost_zeros.
 *
 * CAIRN_NOT_FOUND  a chunk is unknown
 * CAIRN_RANGE      a chunk is longer than a list can hold
 */
int backup_content_add(struct repo *repo, struct zeros *zeros, struct chunk_map *map,
		       const struct repo_id *ids, size_t n, struct cairn_err *err);

/* The same with lengths that the caller knows, for chunks that are not lost. */
int backup_content_add_known(struct zeros *zeros, struct chunk_map *map, const struct repo_id *ids,
			     const uint32_t *lengths, size_t n, struct cairn_err *err);

struct content {
	const struct chunk *chunks; /* from backup_content_add() or put; none left to be read */
	size_t n;
	uint64_t longest; /* chunk of zeros */
	bool sparse;      /* no run of zeros needs to be cut for restic to restore it sparsely */
};

/* Adds the content to a file that was begun: runs of zeros are split and stored
 * if they are not stored yet. */
int backup_content_save(struct repo *repo, const struct content *content, struct zeros *zeros,
			struct repo_tree_writer *writer, struct cairn_err *err);

#endif
