/* SPDX-License-Identifier: Apache-2.0 */

#ifndef CAIRN_REPO_CACHE_IMPL_H
#define CAIRN_REPO_CACHE_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct repo;
struct repo_index_cache;

#define REPO_CACHE_INDEX     "index-"
#define REPO_CACHE_WHOLE     "whole-"
#define REPO_CACHE_HEAD      "head-"
#define REPO_CACHE_LAYOUT    "layout-"
#define REPO_CACHE_SNAPSHOT  "snapshot-"
#define REPO_CACHE_FILES_MAX 64U

/* How many of the index files represented by a cache are read again each time, at most. One of
 * 50 000 blobs has 2 MiB; the files of small backups are small. */
#define REPO_CACHE_CHECK_FILES 2U
#define REPO_CACHE_CHECK_BYTES ((uint64_t)8 << 20)

/* Path of `name` in the repository's cache directory, or of the directory itself; owned by the
 * caller. NULL when there is no cache. */
char *repo_cache_path(const struct repo *repo, const char *name);

/* Writes the entries in memory, and the names in repo->index_known, to a cache of their own and
 * opens it; NULL on failure. */
struct repo_index_cache *repo_cache_write_part(struct repo *repo);

/* Writes a cache with the contents of all of them, which stay; NULL on failure. */
struct repo_index_cache *repo_cache_merge_parts(struct repo *repo, struct repo_index_cache **parts,
						size_t n);

/* False when the directory is not writable. */
bool repo_cache_make_dir(const struct repo *repo);

#endif
