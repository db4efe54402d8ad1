/* SPDX-License-Identifier: Apache-2.0 */

/* What a machine remembers of a repository: CACHE-DIR/REPOSITORY-ID.
 *
 * Five things, all only to save work; the directory may be deleted at any time.
 *   index-…   what index files say (index_cache.h). Believed as long as each of these files
 *             is in the store's listing with its size: they are named by their content, so
 *             they say the same for ever. A few of them, others each time, are read again:
 *             one whose bytes were damaged is still listed.
 *   whole-…   a tree all of whose blobs were found, and the index files that were there
 *             then. While these are all listed, and all packs that they name are too, nothing
 *             that the tree needs can be missing: it need not be walked again.
 *   head-…, layout-…  what a caller learnt of a tree and wants to know again without
 *             reading it; sealed with a hash.
 *   snapshot-…  a snapshot's file as it is stored; its name is its hash.
 *
 * Failures are nobody's concern: then the work is done. Nothing here is thread-safe.
 */
#ifndef CAIRN_REPO_CACHE_H
#define CAIRN_REPO_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_id;

/* Below so many blobs nothing is remembered: reading the index is as fast. */
#define REPO_CACHE_BLOBS_MIN 20000U

/* Attaches what fits repo->index_listed. */
void repo_cache_attach(struct repo *repo);

/* Whether something of what was attached turned out to be damaged: it is removed, and what
 * it stood for is loaded from the repository. What was not found until then may be there.
 *
 * Returns 1 when it is so, 0 when not.
 */
int repo_cache_mend(struct repo *repo, struct cairn_err *err);

/* Adds what this process read and wrote of the index. */
void repo_cache_save(struct repo *repo);

/* A snapshot's file. False when it is not there; the hash is the caller's to check. From
 * any thread. */
bool repo_cache_get_snapshot(struct repo *repo, const struct repo_id *name, uint8_t **ret_data,
			     size_t *ret_n);
void repo_cache_put_snapshot(struct repo *repo, const struct repo_id *name, const void *data,
			     size_t n);

/* True when all that the tree needs is in the repository, without looking. Only after
 * repo_confirm_packs(). */
bool repo_cache_is_whole(struct repo *repo, const struct repo_id *tree);

/* It is so of `tree` from now on; what was remembered of `before` (or NULL) is dropped. */
void repo_cache_set_whole(struct repo *repo, const struct repo_id *tree,
			  const struct repo_id *before);

/* Bytes that depend on nothing but the tree, and so never change. */
enum repo_cached { REPO_CACHED_HEAD, REPO_CACHED_LAYOUT };

/* False when they are not there, or damaged. */
bool repo_cache_get_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree,
			   uint8_t **ret_data, size_t *ret_n);
void repo_cache_put_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree,
			   const void *data, size_t n);
void repo_cache_drop_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree);

#endif
