/* SPDX-License-Identifier: Apache-2.0 */

/* File format of an index cache; native byte order, because it is used only on this
 * machine. */
#ifndef CAIRN_REPO_INDEX_CACHE_IMPL_H
#define CAIRN_REPO_INDEX_CACHE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"
#include "repo/index_cache.h"

#define REPO_INDEX_CACHE_MAGIC   "CAIRNIX1"
#define REPO_INDEX_CACHE_START   4096 /* of the entries */
#define REPO_INDEX_CACHE_FAN_MAX 24U  /* bits */

struct repo_index_cache_header {
	char magic[8];
	char repository[64];
	uint64_t n_blobs, n_names, n_packs;
	uint64_t fan_bits;
	struct repo_id sum; /* of the header, with zeros here, and everything after the entries */
};

uint64_t repo_index_cache_sum(const struct repo_cached_blob *blobs, size_t n);
uint64_t repo_index_cache_pages(uint64_t blobs);
uint64_t repo_index_cache_size(const struct repo_index_cache_header *header);

/* The bucket of an id: its first bits. */
size_t repo_index_cache_bucket(const struct repo_id *id, uint64_t bits);

/* False when memory is short. */
bool repo_index_cache_seal(const struct repo_index_cache_header *header, const uint8_t *tail,
			   size_t n, struct repo_id *ret);

#endif
