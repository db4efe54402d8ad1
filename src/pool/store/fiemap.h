/* SPDX-License-Identifier: Apache-2.0 */

/* A file's extent map from FIEMAP.
 *
 * The first call flushes the file (FIEMAP_FLAG_SYNC): otherwise an overwrite
 * that is still only in memory shows the old, shared address. An extent that is
 * encoded, inline, not aligned or not yet allocated is opaque: on compressed
 * btrfs two extents with one address can hold different data.
 */
#ifndef CAIRN_POOL_FIEMAP_H
#define CAIRN_POOL_FIEMAP_H

#include <stdint.h>

#include "base/cleanup.h"
#include "pool/store/mapping.h"

struct cairn_err;

/* `fd` stays open and owned by the caller; the map begins with the first extent
 * that ends after `start`. */
int pool_fiemap_source_new(int fd, uint64_t start, struct mapping_source **ret,
			   struct cairn_err *err);

/* Moves to the first extent that ends after `start`. */
void pool_fiemap_source_seek(struct mapping_source *source, uint64_t start);
void pool_fiemap_source_free(struct mapping_source *source);
CAIRN_DEFINE_CLEANUP(struct mapping_source, pool_fiemap_source_free);

#endif
