/* SPDX-License-Identifier: Apache-2.0 */

/* Loads an index that is too large for memory: 17 million blobs, as of 1 TiB, would take 2 GiB. */

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/cache_impl.h"
#include "repo/index.h"
#include "repo/index_cache.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/presence.h"
#include "repo/repo_impl.h"

struct parts {
	struct repo *repo;
	struct repo_index *index; /* the repository's own, while parts are loaded */
	struct repo_index_cache *caches[REPO_CACHE_FILES_MAX];
	size_t n;
};

/* The files of the parts are not needed any more, whether they were merged or not. */
static void parts_done(struct parts *parts)
{
	for (size_t i = 0; i < parts->n; i++) {
		(void)unlink(repo_index_cache_path(parts->caches[i]));
		repo_index_cache_free(parts->caches[i]);
	}
}

static uint64_t load_parts_bytes(const struct repo_names *names)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < names->n; i++)
		bytes += names->items[i].size;
	return bytes;
}

/* Loads these files into an index of their own and writes its cache. Returns 1 if that cannot be
 * done because of what the index says, or because the cache cannot be written. */
static int write_part(struct parts *parts, const struct repo_names *names, struct cairn_err *err)
{
	cairn_cleanup(repo_index_freep) struct repo_index *own = repo_index_new();
	struct repo *repo = parts->repo;
	struct repo_index_cache *cache = NULL;
	int rc;

	if (!own)
		return cairn_err_nomem(err, "the index");
	repo->index = own;
	rc = repo_load_index_names(repo, names, err);
	/* A cache has no entries of packs that are recorded as lost. */
	if (rc == 0 && !repo_has_lost_packs(repo))
		cache = repo_cache_write_part(repo);
	repo->index = parts->index;
	repo->index_known.n = 0;
	if (cache)
		parts->caches[parts->n++] = cache;
	return rc < 0 ? rc : !cache;
}

static int write_parts(struct parts *parts, const struct repo_names *names, uint64_t part_bytes,
		       struct cairn_err *err)
{
	size_t first = 0;
	uint64_t bytes = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < names->n; i++) {
		struct repo_names some = {.items = names->items + first, .n = i + 1 - first};

		bytes += names->items[i].size;
		if (bytes < part_bytes && i + 1 < names->n)
			continue;
		rc = parts->n < REPO_CACHE_FILES_MAX ? write_part(parts, &some, err) : 1;
		first = i + 1;
		bytes = 0;
	}
	return rc;
}

int repo_load_index_parts(struct repo *repo, struct repo_names *names, struct cairn_err *err)
{
	cairn_cleanup(parts_done) struct parts parts = {.repo = repo, .index = repo->index};
	uint64_t bytes = load_parts_bytes(names), part_bytes = bytes / (REPO_CACHE_FILES_MAX - 1);
	struct repo_index_cache *merged;
	int rc;

	if (part_bytes < repo->load_part)
		part_bytes = repo->load_part;
	if (bytes <= part_bytes || repo->index_known.n > 0 || repo->cache_saved > 0 ||
	    repo_index_attached(repo->index) >= REPO_CACHE_FILES_MAX || !repo_cache_make_dir(repo))
		return 0;
	rc = write_parts(&parts, names, part_bytes, err);
	if (rc)
		return rc < 0 ? rc : 0;
	merged = repo_cache_merge_parts(repo, parts.caches, parts.n);
	if (!merged)
		return 0;
	rc = repo_index_attach(repo->index, merged, err);
	if (rc == 0)
		names->n = 0;
	return rc;
}
