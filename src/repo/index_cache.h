/* SPDX-License-Identifier: Apache-2.0 */

/* The contents of some index files in a local file that is searched in place.
 *
 * The index of a large volume has some ten million blobs. Decoding it for an increment that
 * touches a few thousand would cost more than the increment. So the entries are kept sorted
 * by id, and a lookup reads only one page of them.
 *
 * A file is a header, entries, then the names of the index files that it represents, the
 * packs, the position of the first entry for each id prefix, and a checksum for each page of
 * entries. Everything but the entries is checked on open, a page of entries when it is read.
 * The file is not essential: if it is missing or damaged, the index is read from the
 * repository.
 *
 * Thread-safe once it is open.
 */
#ifndef CAIRN_REPO_INDEX_CACHE_H
#define CAIRN_REPO_INDEX_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/blob.h"
#include "repo/id.h"

struct cairn_err;
struct repo_index_cache;
struct repo_named;

/* As it is in the file. */
struct repo_cached_pack {
	struct repo_id id;
	uint64_t size; /* minimum size of its file */
};

struct repo_cached_blob {
	struct repo_id id;
	uint32_t pack : 31; /* a number in the file's packs */
	uint32_t tree : 1;
	uint32_t offset, length, plain;
};

/* `repository` is repo_config_id().
 *
 * CAIRN_DATA_LOSS  not such a file, damaged, or of another repository
 */
int repo_index_cache_open(const char *path, const char *repository, struct repo_index_cache **ret,
			  struct cairn_err *err);
void repo_index_cache_free(struct repo_index_cache *cache);
CAIRN_DEFINE_CLEANUP(struct repo_index_cache, repo_index_cache_free);

const struct repo_named *repo_index_cache_names(const struct repo_index_cache *cache,
						size_t *ret_n);
const struct repo_cached_pack *repo_index_cache_packs(const struct repo_index_cache *cache,
						      size_t *ret_n);
const char *repo_index_cache_path(const struct repo_index_cache *cache);
size_t repo_index_cache_blobs(const struct repo_index_cache *cache);

/* Copy number `number` of a blob, from 0 on; false when there are fewer, and *ret_n is
 * then their number. A damaged page counts as empty, and repo_index_cache_damaged() is
 * true from then on. */
bool repo_index_cache_find(struct repo_index_cache *cache, enum repo_blob_type type,
			   const struct repo_id *id, unsigned number, struct repo_cached_blob *ret,
			   unsigned *ret_n);
bool repo_index_cache_damaged(const struct repo_index_cache *cache);

/* Number of entries that share one checksum. */
#define REPO_INDEX_CACHE_PAGE 32U

/* The entries of a page, in the order of ids; 0 when it is damaged. */
size_t repo_index_cache_page(struct repo_index_cache *cache, size_t page,
			     struct repo_cached_blob ret[REPO_INDEX_CACHE_PAGE]);

struct repo_index_cache_content {
	const char *repository;
	const struct repo_named *names; /* index files that it represents */
	size_t n_names;
	const struct repo_cached_pack *packs;
	size_t n_packs;
	uint32_t n_blobs;
	/* The next entry in the order of ids; false when it cannot be read because of
	 * damage. */
	bool (*next)(void *arg, struct repo_cached_blob *ret);
	void *arg;
};

/* Writes a file of that path atomically. */
int repo_index_cache_write(const char *path, const struct repo_index_cache_content *content,
			   struct cairn_err *err);

#endif
