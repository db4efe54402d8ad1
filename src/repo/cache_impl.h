/* SPDX-License-Identifier: Apache-2.0 */

#ifndef CAIRN_REPO_CACHE_IMPL_H
#define CAIRN_REPO_CACHE_IMPL_H

#include <stdbool.h>

struct repo;

#define REPO_CACHE_INDEX     "index-"
#define REPO_CACHE_WHOLE     "whole-"
#define REPO_CACHE_SNAPSHOT  "snapshot-"
#define REPO_CACHE_FILES_MAX 64U

/* A name in the repository's directory, or the directory; the caller's. NULL when there is no cache. */
char *repo_cache_path(const struct repo *repo, const char *name);

/* False when nothing can be written there. */
bool repo_cache_make_dir(const struct repo *repo);

#endif
