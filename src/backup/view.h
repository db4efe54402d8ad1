/* SPDX-License-Identifier: Apache-2.0 */

/* Random read access to an image.
 *
 * Fetched chunks are cached, because adjacent reads follow. A read that
 * continues where the last one ended fetches ahead. For any number of threads.
 */
#ifndef CAIRN_BACKUP_VIEW_H
#define CAIRN_BACKUP_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct image;
struct repo;
struct view;

#define VIEW_CACHE_BYTES (64ULL << 20) /* approximate size of the chunk cache */
#define VIEW_AHEAD_BYTES (1ULL << 20)  /* fetched at once for sequential reads */

/* Takes ownership of the image, also on failure. */
int backup_view_new(struct repo *repo, struct image *image, struct view **ret,
		    struct cairn_err *err);
void backup_view_free(struct view *view);
CAIRN_DEFINE_CLEANUP(struct view, backup_view_free);

uint64_t backup_view_size(const struct view *view);

/* Reads like pread(): short only at the end.
 *
 * CAIRN_DATA_LOSS  a chunk is damaged or missing
 */
int backup_view_read(struct view *view, uint64_t offset, void *buf, size_t n, size_t *ret_n,
		     struct cairn_err *err);

#endif
