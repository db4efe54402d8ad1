/* SPDX-License-Identifier: Apache-2.0 */

#ifndef CAIRN_REPO_CACHE_IMPL_H
#define CAIRN_REPO_CACHE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

struct repo;

#define REPO_CACHE_INDEX     "index-"
#define REPO_CACHE_WHOLE     "whole-"
#define REPO_CACHE_HEAD      "head-"
#define REPO_CACHE_LAYOUT    "layout-"
#define REPO_CACHE_SNAPSHOT  "snapshot-"
#define REPO_CACHE_FILES_MAX 64U

/* So many index files that a cache stands for are read again each time, at most. One of 50 000
 * blobs has 2 MiB; the files of small backups are small. */
#define REPO_CACHE_CHECK_FILES 2U
#define REPO_CACHE_CHECK_BYTES ((uint64_t)8 << 20)

/* A name in the repository's directory, or the directory; the caller's. NULL when there is no cache. */
char *repo_cache_path(const struct repo *repo, const char *name);

/* False when nothing can be written there. */
bool repo_cache_make_dir(const struct repo *repo);

#endif
