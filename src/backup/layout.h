/* SPDX-License-Identifier: Apache-2.0 */

/* How a segmented image is cut, kept by this machine.
 *
 * The list of a segment names its chunks, but not how long they are; to look that up costs
 * a read of the index for each chunk, two hundred for a segment of which one changed. And
 * to learn the trees of segments their groups must be read. Both follow from the tree of
 * the image and never change, so the machine that makes increments keeps them, under the
 * id of the directory of groups.
 *
 * What is not known of a segment is read and looked up as without a layout. Segments with
 * zeros are not kept: what is one run of zeros may be several blobs.
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

/* Of `count` segments, of which is known what `old` (or NULL) says; NULL when memory is
 * short. */
struct layout *layout_new(uint64_t count, const struct layout *old);
void layout_free(struct layout *layout);
CAIRN_DEFINE_CLEANUP(struct layout, layout_free);

/* The tree of a segment; NULL when it is not known. */
const struct repo_id *layout_leaf(const struct layout *layout, uint64_t number);

/* The lengths of the `n` chunks of a segment of `bytes`. False when they are not known. */
bool layout_lengths(const struct layout *layout, uint64_t number, size_t n, uint64_t bytes,
		    uint32_t *ret);

/* A segment has this tree. Its lengths are kept if it had it before. */
void layout_set_leaf(struct layout *layout, uint64_t number, const struct repo_id *leaf);

/* A segment has this tree and these chunks. */
void layout_set(struct layout *layout, uint64_t number, const struct repo_id *leaf,
		const struct chunk *chunks, size_t n);

/* What this machine keeps; NULL when there is nothing, or not of `count` segments. */
struct layout *layout_load(struct repo *repo, const struct repo_id *top, uint64_t count);

/* Keeps it, and drops what was kept of `before` (or NULL). */
void layout_save(struct repo *repo, const struct repo_id *top, const struct repo_id *before,
		 const struct layout *layout);

#endif
