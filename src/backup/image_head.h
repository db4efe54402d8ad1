/* SPDX-License-Identifier: Apache-2.0 */

/* A local cache of the first trees of a segmented image, which saves the next backup
 * from reading three blobs one after the other. */
#ifndef CAIRN_BACKUP_IMAGE_HEAD_H
#define CAIRN_BACKUP_IMAGE_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "repo/id.h"

struct repo;

struct image_head {
	struct repo_id parts; /* the list of groups */
	const char *metadata; /* the file */
	size_t n;             /* its length */
};

/* Caches the head, and that everything the tree needs is in the repository. The
 * entry of `before` (or NULL) is dropped. */
void backup_image_head_keep(struct repo *repo, const struct repo_id *tree,
			    const struct repo_id *before, const struct image_head *head);

/* The head of a snapshot's tree. False when it is not cached, or when data that the
 * tree needs may be missing: then it must be read. `*ret_bytes` holds the metadata and
 * is owned by the caller. */
bool backup_image_head_find(struct repo *repo, const struct repo_id *tree, struct image_head *ret,
			    void **ret_bytes);

#endif
