/* SPDX-License-Identifier: Apache-2.0 */

/* A volume's image in a repository, opened: its chunks and what it is of. */
#ifndef CAIRN_BACKUP_IMAGE_H
#define CAIRN_BACKUP_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/chunk.h"
#include "backup/metadata.h"
#include "backup/segment.h"

struct cairn_err;
struct repo;
struct repo_snapshot;
struct zeros;

struct image {
	struct chunk_map map;
	bool segmented; /* `segments` is set */
	struct segments segments;
	uint64_t size;            /* as the tree says */
	struct metadata metadata; /* empty where there is none */
	bool metadata_lost;       /* there was some, and it cannot be read any more */
};

/* Also a cleanup function. */
void image_done(struct image *image);

/* Opens the image of a backup, or any regular file of a snapshot: `path` names
 * it, NULL is the image of one of our own. The index must be loaded.
 *
 * CAIRN_NOT_FOUND  there is no such file, or nothing is known of a chunk of it
 * CAIRN_INVALID    it is no regular file, or no path was given and the snapshot is not ours
 * CAIRN_DATA_LOSS  damaged, its chunks do not add up to its size, or some are lost
 */
int image_open(struct repo *repo, const struct repo_snapshot *snapshot, const char *path,
	       struct zeros *zeros, struct image *ret, struct cairn_err *err);

/* Like it for an image of ours that a backup is to be built on. Chunks may be lost as long
 * as their lengths are known (CHUNK_LOST). Of a segmented image no segment is read, and
 * the map is empty. */
int image_open_parent(struct repo *repo, const struct repo_snapshot *snapshot, struct zeros *zeros,
		      struct image *ret, struct cairn_err *err);

/* There is metadata, and it fits; or it is lost.
 *
 * CAIRN_DATA_LOSS  it is not so
 */
int image_check(const struct image *image, struct cairn_err *err);

#endif
