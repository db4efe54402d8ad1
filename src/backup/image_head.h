/* SPDX-License-Identifier: Apache-2.0 */

/* What the first trees of a segmented image say, kept by this machine: the next backup
 * would read three blobs, one after the other, to learn it. */
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

/* All that the tree needs is in the repository. What is kept of `before` (or NULL)
 * is dropped. */
void image_head_keep(struct repo *repo, const struct repo_id *tree, const struct repo_id *before,
		     const struct image_head *head);

/* The head of a snapshot's tree. False when it is not known, or when something that the
 * tree needs may be missing: then it must be read. `*ret_bytes` holds the metadata, the
 * caller's. */
bool image_head_find(struct repo *repo, const struct repo_id *tree, struct image_head *ret,
		     void **ret_bytes);

#endif
