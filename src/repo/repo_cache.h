/* SPDX-License-Identifier: Apache-2.0 */

/* The local cache of a repository: CACHE-DIR/REPOSITORY-ID.
 *
 * Five kinds of files, all only to save work; the directory may be deleted at any time.
 *   index-…   contents of index files (index_cache.h). Valid while each of these files
 *             is in the store's listing with its size: they are named by their content, so
 *             they never change. repo_cache_check() reads a few of them again, different
 *             ones each time: one whose bytes were damaged is still listed.
 *   whole-…   a tree all of whose blobs were found, and the index files that were there
 *             then. While these are all listed, and all packs that they name are too, nothing
 *             that the tree needs can be missing: it need not be walked again.
 *   head-…, layout-…  facts about a tree that a caller wants to look up again without
 *             reading it; sealed with a hash.
 *   snapshot-…  a snapshot's file as it is stored; its name is its hash.
 *
 * Failures are ignored: the work is then done without the cache. Not thread-safe, unless a
 * function says otherwise.
 */
#ifndef CAIRN_REPO_CACHE_H
#define CAIRN_REPO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_id;

/* With fewer blobs nothing is cached: reading the index is as fast. */
#define REPO_CACHE_BLOBS_MIN 20000U

/* Stored bytes of index files that are loaded into memory at a time, if there is a cache directory:
 * some 600 000 blobs, which take 100 MiB while they are sorted. */
#define REPO_LOAD_PART ((uint64_t)24 << 20)

/* Packs above which a backup without changes reads no index file again. */
#define REPO_CACHE_CHECK_PACKS 4096U

/* Attaches the cached indexes that match repo->index_listed. */
void repo_cache_attach(struct repo *repo);

/* Reads some of the index files that the attached caches represent, from a random one on, so that
 * all are read over time; a small index is read completely. A listing shows that an index file
 * exists, not that it is readable, and restic could not find blobs that only a cache knows. If one
 * is damaged, the index is loaded from the repository. `idle`: the caller adds nothing, and in a
 * repository of more than REPO_CACHE_CHECK_PACKS packs, whose listing alone takes several requests,
 * nothing is read. Damage that stays unnoticed then is of the index, not of data: a repair reads it
 * from the packs, all of which were listed.
 *
 * CAIRN_DATA_LOSS  an index file is damaged
 */
int repo_cache_check(struct repo *repo, bool idle, struct cairn_err *err);

/* Checks whether an attached cache turned out to be damaged. If so, it is removed and its
 * index files are loaded from the repository, so blobs that were not found before may
 * exist.
 *
 * Returns 1 if a cache was damaged, 0 if not.
 */
int repo_cache_mend(struct repo *repo, struct cairn_err *err);

/* Adds the parts of the index that this process read and wrote. */
void repo_cache_save(struct repo *repo);

/* A snapshot's file. False when it is not cached; the caller checks the hash. From any
 * thread. */
bool repo_cache_get_snapshot(struct repo *repo, const struct repo_id *name, uint8_t **ret_data,
			     size_t *ret_n);
void repo_cache_put_snapshot(struct repo *repo, const struct repo_id *name, const void *data,
			     size_t n);

/* True when the cache proves that everything the tree needs is in the repository.
 * Only after repo_confirm_packs(). */
bool repo_cache_is_whole(struct repo *repo, const struct repo_id *tree);

/* Records that `tree` is complete; the record of `before` (or NULL) is dropped. */
void repo_cache_set_whole(struct repo *repo, const struct repo_id *tree,
			  const struct repo_id *before);

/* Data that depends only on the tree, and so never changes. */
enum repo_cached { REPO_CACHED_HEAD, REPO_CACHED_LAYOUT };

/* False when it is not cached, or damaged. */
bool repo_cache_get_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree,
			   uint8_t **ret_data, size_t *ret_n);
void repo_cache_put_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree,
			   const void *data, size_t n);
void repo_cache_drop_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree);

#endif
