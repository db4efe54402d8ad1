/* SPDX-License-Identifier: Apache-2.0 */

/* A local cache of the chunk boundaries of a segmented image.
 *
 * The list of a segment names its chunks but not their lengths. Looking those up costs a
 * read of the index for each chunk, two hundred for a segment of which one changed. And
 * finding the trees of segments requires reading their groups. Both depend only on the
 * tree of the image and never change, so the machine that makes increments caches them,
 * under the id of the directory of groups.
 *
 * For segments that are not cached, the lists are read and the lengths looked up. Segments
 * with zeros are not cached, because one run of zeros may be several blobs.
 */
#ifndef CAIRN_BACKUP_LAYOUT_H
#define CAIRN_BACKUP_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"

struct chunk;
struct repo;

struct layout;

/* A layout of `count` segments with the contents of `old` (or NULL); NULL when memory
 * is short. */
struct layout *backup_layout_new(uint64_t count, const struct layout *old);
void backup_layout_free(struct layout *layout);
CAIRN_DEFINE_CLEANUP(struct layout, backup_layout_free);

/* The tree of a segment; NULL when it is not known. */
const struct repo_id *backup_layout_leaf(const struct layout *layout, uint64_t number);

/* The lengths of the `n` chunks of a segment of `bytes`. False when they are not known. */
bool backup_layout_lengths(const struct layout *layout, uint64_t number, size_t n, uint64_t bytes,
			   uint32_t *ret);

/* Sets the tree of a segment. Its lengths are kept if the tree is unchanged. */
void backup_layout_set_leaf(struct layout *layout, uint64_t number, const struct repo_id *leaf);

/* Sets the tree and the chunks of a segment. */
void backup_layout_set(struct layout *layout, uint64_t number, const struct repo_id *leaf,
		       const struct chunk *chunks, size_t n);

/* Loads the cached layout; NULL when there is none, or not one of `count`
 * segments. */
struct layout *backup_layout_load(struct repo *repo, const struct repo_id *top, uint64_t count);

/* Caches it, and drops the entry of `before` (or NULL). */
void backup_layout_save(struct repo *repo, const struct repo_id *top, const struct repo_id *before,
			const struct layout *layout);

#endif
