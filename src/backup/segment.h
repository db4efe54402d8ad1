/* SPDX-License-Identifier: Apache-2.0 */

/* The image of a large volume as a directory of segments.
 *
 * A tree stores the list of a file's chunks, so any change in a file stores the whole
 * list again. A large volume is therefore split into segments of equal length, each a
 * file in a directory of its own; unchanged segments keep their trees:
 *
 *   volume.parts/000000/000/img    bytes 0 to 8 MiB - 1
 *   volume.parts/000000/001/img
 *   …
 *   volume.parts/000001/000/img    256 segments later
 *
 * The files, concatenated in the order of their names, are the image. All but the last
 * are equally long. Segments of zeros share one tree, and so do groups of such segments,
 * so a sparse volume costs little.
 */
#ifndef CAIRN_BACKUP_SEGMENT_H
#define CAIRN_BACKUP_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "backup/chunk.h"
#include "repo/id.h"

struct cairn_err;
struct repo;
struct zeros;

#define SEGMENT_BYTES (8U << 20) /* fits the longest chunk */
#define SEGMENT_MIN   CHUNK_DATA_MIN
#define SEGMENT_GROUP 256U /* segments per directory */

/* Limits the memory that another program's tree can make us allocate. */
#define SEGMENT_GROUPS_MAX (1U << 20)

/* The properties of a segmented image that are known without reading its
 * segments. */
struct segments {
	struct repo_id top; /* the directory of groups */
	uint64_t size;      /* of the image */
	uint64_t segment;   /* the length of one */
	size_t n_groups;
	struct repo_id *groups; /* NULL: not read yet */
};

/* Also a cleanup function. */
void backup_segments_done(struct segments *segments);

/* The number of segments of an image, and the number in a group that starts at a given
 * one. */
uint64_t backup_segments_count(uint64_t size, uint64_t segment);
size_t backup_segments_in_group(uint64_t count, uint64_t group);

/* The length of segment `number`. */
uint64_t backup_segments_length(const struct segments *segments, uint64_t number);

/* Opens the directory `top`. `size` and `segment` come from the backup's metadata, and
 * nothing is read; if that is lost, both are 0, and are determined from the trees.
 *
 * CAIRN_DATA_LOSS  damaged, or not the directories of such an image
 */
int backup_segments_open(struct repo *repo, const struct repo_id *top, uint64_t size,
			 uint64_t segment, struct segments *ret, struct cairn_err *err);

/* Reads the directory of groups, unless it was read before. */
int backup_segments_read_groups(struct repo *repo, struct segments *segments,
				struct cairn_err *err);

/* The trees of a group's segments, after backup_segments_read_groups(); `ret` has room for
 * backup_segments_in_group(). */
int backup_segments_leaves(struct repo *repo, const struct segments *segments, uint64_t group,
			   struct repo_id *ret, struct cairn_err *err);

/* The content of one segment from its tree. */
struct segment_list {
	struct repo_id *ids;
	size_t n;
	uint64_t size;
};

/* Reads many lists with few requests, on several threads. `lists` has room for `n`; the
 * caller frees it with backup_segment_lists_done(), also after a failure. */
int backup_segment_lists_load(struct repo *repo, const struct repo_id *leaves, size_t n,
			      struct segment_list *lists, struct cairn_err *err);
void backup_segment_lists_done(struct segment_list *lists, size_t n);

/* Converts a list to chunks, which must have `length` bytes.
 *
 * CAIRN_NOT_FOUND  a chunk is unknown
 * CAIRN_DATA_LOSS  they have another number of bytes
 */
int backup_segment_list_chunks(struct repo *repo, struct zeros *zeros,
			       const struct segment_list *list, uint64_t length,
			       struct chunk_map *map, struct cairn_err *err);

/* Calls `fn` for every segment, in order, with its tree and chunks. */
int backup_segments_walk(struct repo *repo, struct zeros *zeros, struct segments *segments,
			 int (*fn)(void *arg, uint64_t number, const struct repo_id *leaf,
				   const struct chunk_map *map, struct cairn_err *err),
			 void *arg, struct cairn_err *err);

/* ---- writing ----------------------------------------------------------------- */

/* Stores the tree of segment `number`. */
int backup_segment_save(struct repo *repo, struct zeros *zeros, uint64_t number,
			const struct chunk *chunks, size_t n, struct repo_id *ret,
			struct cairn_err *err);

/* Stores a directory of groups or of segments. */
int backup_segment_save_groups(struct repo *repo, const struct repo_id *groups, size_t n,
			       struct repo_id *ret, struct cairn_err *err);
int backup_segment_save_group(struct repo *repo, const struct repo_id *leaves, size_t n,
			      struct repo_id *ret, struct cairn_err *err);

#endif
