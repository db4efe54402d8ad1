/* SPDX-License-Identifier: Apache-2.0 */

/* Writes a cache of the index: the entries in memory, merged with smaller caches, so
 * that there are few files. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/random.h"
#include "repo/cache_impl.h"
#include "repo/index.h"
#include "repo/index_cache.h"
#include "repo/presence.h"
#include "repo/repo_cache.h"
#include "repo/repo_impl.h"

#define SOURCES_MAX (REPO_CACHE_FILES_MAX + 1)

/* A sorted source: entries in memory, or a cache. */
struct source {
	struct repo_cached_blob *blobs; /* or NULL */
	struct repo_index_cache *cache;
	size_t n, at;
	uint32_t first_pack;                                 /* its first pack in the new file */
	struct repo_cached_blob page[REPO_INDEX_CACHE_PAGE]; /* the cache's page with `at` */
	struct repo_cached_blob head;
};

struct saving {
	struct repo *repo;
	struct source sources[SOURCES_MAX];
	size_t n;
	struct repo_cached_pack *packs;
	size_t n_packs;
	struct repo_named *names;
	size_t n_names;
	uint64_t blobs;
};

static void saving_free(struct saving *saving)
{
	if (!saving)
		return;
	free(saving->sources[0].blobs);
	free(saving->packs);
	free(saving->names);
	free(saving);
}
CAIRN_DEFINE_CLEANUP(struct saving, saving_free);

static int cache_save_by_id(const void *a, const void *b)
{
	const struct repo_cached_blob *x = a, *y = b;

	return repo_id_compare(&x->id, &y->id);
}

/* Packs of entries that are in no cache yet. */
static void mark_packs(const struct repo *repo, uint32_t *numbers)
{
	struct repo_pack_blob blob;
	uint32_t pack;

	for (uint32_t i = repo->cache_saved; i < repo_index_entries(repo->index); i++)
		if (repo_index_at(repo->index, i, &blob, &pack))
			numbers[pack] = 1;
}

/* Maps these packs to their numbers in the new file; UINT32_MAX for others and for packs
 * that are in no index file. */
static uint32_t *number_packs(struct saving *saving)
{
	struct repo_index *index = saving->repo->index;
	uint32_t n = repo_index_packs(index);
	uint32_t *numbers = cairn_calloc(n, sizeof(*numbers));
	cairn_auto_free uint64_t *sizes = NULL;

	saving->packs = cairn_calloc((size_t)n + 1, sizeof(*saving->packs));
	if (!numbers || !saving->packs || repo_pack_sizes(index, &sizes, NULL) != 0) {
		free(numbers);
		return NULL;
	}
	mark_packs(saving->repo, numbers);
	for (uint32_t i = 0; i < n; i++) {
		struct repo_cached_pack *pack = &saving->packs[saving->n_packs];
		bool used = numbers[i] == 1;

		numbers[i] = UINT32_MAX;
		if (!used || repo_index_pack_at(index, i, &pack->id) != REPO_PACK_INDEXED)
			continue;
		pack->size = sizes[i];
		numbers[i] = (uint32_t)saving->n_packs++;
	}
	return numbers;
}

/* Entries that are in no cache yet. */
static bool take_memory(struct saving *saving)
{
	struct repo *repo = saving->repo;
	struct source *source = &saving->sources[saving->n++];
	uint32_t end = repo_index_entries(repo->index);
	cairn_auto_free uint32_t *numbers = number_packs(saving);

	source->blobs = cairn_calloc(end - repo->cache_saved + 1, sizeof(*source->blobs));
	if (!numbers || !source->blobs)
		return false;
	for (uint32_t i = repo->cache_saved; i < end; i++) {
		struct repo_cached_blob *to = &source->blobs[source->n];
		struct repo_pack_blob blob;
		uint32_t pack;

		if (!repo_index_at(repo->index, i, &blob, &pack) || numbers[pack] == UINT32_MAX)
			continue;
		*to = (struct repo_cached_blob){.id = blob.id,
						.pack = numbers[pack] & (UINT32_MAX >> 1),
						.tree = blob.type == REPO_BLOB_TREE,
						.offset = blob.offset,
						.length = blob.length,
						.plain = blob.plain};
		source->n++;
	}
	qsort(source->blobs, source->n, sizeof(*source->blobs), cache_save_by_id);
	saving->blobs = source->n;
	return true;
}

static bool add_packs(struct saving *saving, const struct repo_cached_pack *packs, size_t n)
{
	struct repo_cached_pack *more =
		cairn_realloc_array(saving->packs, saving->n_packs + n + 1, sizeof(*more));

	if (!more)
		return false;
	saving->packs = more;
	memcpy(more + saving->n_packs, packs, n * sizeof(*more));
	saving->n_packs += n;
	return true;
}

static bool add_names(struct saving *saving, const struct repo_named *names, size_t n)
{
	struct repo_named *more =
		cairn_realloc_array(saving->names, saving->n_names + n + 1, sizeof(*more));

	if (!more)
		return false;
	saving->names = more;
	memcpy(more + saving->n_names, names, n * sizeof(*more));
	saving->n_names += n;
	return true;
}

static bool take_cache(struct saving *saving, struct repo_index_cache *cache)
{
	struct source *source = &saving->sources[saving->n];
	const struct repo_cached_pack *packs;
	const struct repo_named *names;
	size_t n;

	source->cache = cache;
	source->n = repo_index_cache_blobs(cache);
	source->first_pack = (uint32_t)saving->n_packs;
	saving->blobs += source->n;
	saving->n++;
	packs = repo_index_cache_packs(cache, &n);
	if (!add_packs(saving, packs, n))
		return false;
	names = repo_index_cache_names(cache, &n);
	return add_names(saving, names, n);
}

/* Merges caches, the smallest first, until one is more than twice as large as everything
 * merged so far, so that a large cache is rewritten rarely. Merges on if there are too many
 * files. */
static bool take_caches(struct saving *saving)
{
	struct repo_index *index = saving->repo->index;

	for (size_t i = repo_index_attached(index); i > 0; i--) {
		struct repo_index_cache *cache = repo_index_attached_at(index, i - 1);

		if (repo_index_cache_blobs(cache) > 2 * saving->blobs &&
		    repo_index_attached(index) < REPO_CACHE_FILES_MAX / 2)
			break;
		if (!take_cache(saving, cache))
			return false;
	}
	return saving->blobs <= UINT32_MAX;
}

static bool load_head(struct source *source)
{
	size_t in_page = source->at % REPO_INDEX_CACHE_PAGE;

	if (source->at == source->n)
		return true;
	if (source->cache && in_page == 0 &&
	    repo_index_cache_page(source->cache, source->at / REPO_INDEX_CACHE_PAGE,
				  source->page) == 0)
		return false;
	source->head = source->cache ? source->page[in_page] : source->blobs[source->at];
	source->head.pack += source->first_pack;
	return true;
}

static bool cache_save_next(void *arg, struct repo_cached_blob *ret)
{
	struct saving *saving = arg;
	struct source *least = NULL;

	for (size_t i = 0; i < saving->n; i++) {
		struct source *source = &saving->sources[i];

		if (source->at < source->n &&
		    (!least || repo_id_compare(&source->head.id, &least->head.id) < 0))
			least = source;
	}
	if (!least)
		return false;
	*ret = least->head;
	least->at++;
	return load_head(least);
}

/* The path of the new file; NULL on failure. */
static char *write_file(struct saving *saving)
{
	char name[sizeof(REPO_CACHE_INDEX) + 16] = REPO_CACHE_INDEX;
	struct repo_index_cache_content content = {
		.repository = repo_config_id(saving->repo),
		.names = saving->names,
		.n_names = saving->n_names,
		.packs = saving->packs,
		.n_packs = saving->n_packs,
		.n_blobs = (uint32_t)saving->blobs,
		.next = cache_save_next,
		.arg = saving,
	};
	cairn_auto_free char *path = NULL;

	if (cairn_random_hex(name + strlen(name), 8, NULL) != 0)
		return NULL;
	path = repo_cache_path(saving->repo, name);
	for (size_t i = 0; i < saving->n; i++)
		if (!load_head(&saving->sources[i]))
			return NULL;
	if (!path || repo_index_cache_write(path, &content, NULL) != 0)
		return NULL;
	return cairn_take(path);
}

/* The new cache contains the index files that were in memory only. */
static void move_names(struct repo *repo)
{
	for (size_t i = 0; i < repo->index_known.n; i++)
		(void)repo_names_add(&repo->index_saved, &repo->index_known.items[i], NULL);
	repo->index_known.n = 0;
	repo->cache_saved = repo_index_entries(repo->index);
}

static bool is_worth_it(struct repo *repo)
{
	uint64_t fresh = repo_index_entries(repo->index) - repo->cache_saved;
	bool cached = repo_index_attached(repo->index) > 0 || repo->index_saved.n > 0;

	return fresh > 0 && repo->index_known.n > 0 && repo->packs_whole &&
	       (cached || fresh >= repo->cache_min);
}

static struct saving *saving_new(struct repo *repo)
{
	struct saving *saving = cairn_calloc(1, sizeof(*saving));

	if (saving)
		saving->repo = repo;
	return saving;
}

static bool add_known_names(struct saving *saving)
{
	const struct repo_names *known = &saving->repo->index_known;

	return known->n == 0 || add_names(saving, known->items, known->n);
}

void repo_cache_save(struct repo *repo)
{
	cairn_cleanup(saving_freep) struct saving *saving = NULL;
	cairn_auto_free char *path = NULL;

	if (!repo->cache_dir || repo_cache_mend(repo, NULL) != 0 || !is_worth_it(repo) ||
	    !repo_cache_make_dir(repo))
		return;
	saving = saving_new(repo);
	if (!saving || !add_known_names(saving) || !take_memory(saving) || !take_caches(saving))
		return;
	path = write_file(saving);
	if (!path)
		return;
	for (size_t i = 1; i < saving->n; i++)
		(void)unlink(repo_index_cache_path(saving->sources[i].cache));
	move_names(repo);
}

/* ---- an index that is too large for memory ----------------------------------- */

static struct repo_index_cache *write_and_open(struct saving *saving)
{
	cairn_auto_free char *path = write_file(saving);
	struct repo_index_cache *cache = NULL;

	if (path && repo_index_cache_open(path, repo_config_id(saving->repo), &cache, NULL) != 0) {
		(void)unlink(path);
		return NULL;
	}
	return cache;
}

struct repo_index_cache *repo_cache_write_part(struct repo *repo)
{
	cairn_cleanup(saving_freep) struct saving *saving = saving_new(repo);

	if (!saving || !add_known_names(saving) || !take_memory(saving))
		return NULL;
	return write_and_open(saving);
}

struct repo_index_cache *repo_cache_merge_parts(struct repo *repo, struct repo_index_cache **parts,
						size_t n)
{
	cairn_cleanup(saving_freep) struct saving *saving = saving_new(repo);

	if (!saving || n > SOURCES_MAX)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!take_cache(saving, parts[i]))
			return NULL;
	return saving->blobs <= UINT32_MAX ? write_and_open(saving) : NULL;
}
