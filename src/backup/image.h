/* SPDX-License-Identifier: Apache-2.0 */

/* The image of a volume in a repository: its chunks and metadata. */
#ifndef CAIRN_BACKUP_IMAGE_H
#define CAIRN_BACKUP_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/chunk.h"
#include "backup/image_metadata.h"
#include "backup/segment.h"

struct cairn_err;
struct repo;
struct repo_snapshot;
struct zeros;

struct image {
	struct chunk_map map;
	bool segmented; /* `segments` is set */
	struct segments segments;
	uint64_t size;            /* from the tree */
	struct metadata metadata; /* empty if there is none */
	bool metadata_lost;       /* there was metadata, but it cannot be read any more */
};

/* Also a cleanup function. */
void backup_image_done(struct image *image);

/* Opens the image of a backup, or any regular file of a snapshot: `path` names it, NULL is
 * the image of one of our own backups. The index must be loaded.
 *
 * CAIRN_NOT_FOUND  no such file, or one of its chunks is unknown
 * CAIRN_INVALID    not a regular file, or no path was given and the snapshot is not ours
 * CAIRN_DATA_LOSS  damaged, its chunks do not add up to its size, or some are lost
 */
int backup_image_open(struct repo *repo, const struct repo_snapshot *snapshot, const char *path,
		      struct zeros *zeros, struct image *ret, struct cairn_err *err);

/* The same for one of our images that becomes the parent of a backup. Chunks may be lost
 * if their lengths are known (CHUNK_LOST). Of a segmented image no segment is read, and
 * the map is empty. */
int backup_image_open_parent(struct repo *repo, const struct repo_snapshot *snapshot,
			     struct zeros *zeros, struct image *ret, struct cairn_err *err);

/* Checks that there is metadata that matches the image, or that it is lost.
 *
 * CAIRN_DATA_LOSS  missing or not matching
 */
int backup_image_check(const struct image *image, struct cairn_err *err);

#endif
