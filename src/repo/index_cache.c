/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/index_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "repo/index_cache_impl.h"
#include "repo/names.h"

struct repo_index_cache {
	char *path;
	int fd;
	struct repo_index_cache_header header;
	uint8_t *tail; /* everything after the entries; the pointers below are into it */
	const struct repo_named *names;
	const struct repo_cached_pack *packs;
	const uint64_t *sums;
	const uint32_t *fan;
	atomic_bool damaged;
};

uint64_t repo_index_cache_sum(const struct repo_cached_blob *blobs, size_t n)
{
	const uint8_t *at = (const uint8_t *)blobs;
	uint64_t lanes[4] = {1, 2, 3, 4};

	_Static_assert(sizeof(*blobs) % 16 == 0, "whole words");
	for (size_t i = 0; i < n * sizeof(*blobs); i += sizeof(uint64_t)) {
		uint64_t word, *lane = &lanes[i / sizeof(uint64_t) % 4];

		memcpy(&word, at + i, sizeof(word));
		*lane = (*lane ^ word) * 0x9e3779b97f4a7c15ULL;
		*lane ^= *lane >> 29;
	}
	for (int i = 1; i < 4; i++)
		lanes[0] = (lanes[0] ^ lanes[i]) * 0xbf58476d1ce4e5b9ULL;
	return lanes[0] ^ lanes[0] >> 32 ^ n;
}

void repo_index_cache_free(struct repo_index_cache *cache)
{
	if (!cache)
		return;
	if (cache->fd >= 0)
		close(cache->fd);
	free(cache->path);
	free(cache->tail);
	free(cache);
}

static bool index_cache_read_all(const struct repo_index_cache *cache, void *out, size_t n,
				 uint64_t offset)
{
	return cairn_pread_full(cache->fd, out, n, offset) == (ssize_t)n;
}

/* Reads the header, and checks that its sizes add up to the size of the file. */
static bool read_header(struct repo_index_cache *cache, const char *repository)
{
	struct repo_index_cache_header *header = &cache->header;
	struct stat st;

	return fstat(cache->fd, &st) == 0 &&
	       index_cache_read_all(cache, header, sizeof(*header), 0) &&
	       memcmp(header->magic, REPO_INDEX_CACHE_MAGIC, sizeof(header->magic)) == 0 &&
	       strncmp(header->repository, repository, sizeof(header->repository)) == 0 &&
	       header->fan_bits <= REPO_INDEX_CACHE_FAN_MAX && header->n_blobs <= UINT32_MAX &&
	       header->n_names <= UINT32_MAX && header->n_packs <= UINT32_MAX >> 1 &&
	       repo_index_cache_size(header) == (uint64_t)st.st_size;
}

/* Reads everything after the entries and checks that it is unchanged. */
static bool read_tail(struct repo_index_cache *cache)
{
	struct repo_index_cache_header *header = &cache->header;
	uint64_t start = REPO_INDEX_CACHE_START + header->n_blobs * sizeof(struct repo_cached_blob);
	size_t n = repo_index_cache_size(header) - start;
	struct repo_id sum = header->sum, got;

	cache->tail = cairn_alloc(n);
	if (!cache->tail || !index_cache_read_all(cache, cache->tail, n, start))
		return false;
	header->sum = (struct repo_id){{0}};
	if (!repo_index_cache_seal(header, cache->tail, n, &got) || !repo_id_equal(&got, &sum))
		return false;
	cache->names = (const struct repo_named *)cache->tail;
	cache->packs = (const struct repo_cached_pack *)(cache->names + header->n_names);
	cache->sums = (const uint64_t *)(cache->packs + header->n_packs);
	cache->fan = (const uint32_t *)(cache->sums + repo_index_cache_pages(header->n_blobs));
	return true;
}

int repo_index_cache_open(const char *path, const char *repository, struct repo_index_cache **ret,
			  struct cairn_err *err)
{
	cairn_cleanup(repo_index_cache_freep) struct repo_index_cache *cache =
		cairn_calloc(1, sizeof(*cache));
	int rc;

	if (!cache)
		return cairn_err_nomem(err, "a cache of the index");
	cache->fd = -1;
	cache->path = cairn_strdup(path);
	if (!cache->path)
		return cairn_err_nomem(err, "a cache of the index");
	rc = cairn_open_regular(AT_FDCWD, path, O_RDONLY, 0, &cache->fd, err);
	if (rc)
		return rc;
	if (!read_header(cache, repository) || !read_tail(cache))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' is damaged", path);
	*ret = cairn_take(cache);
	return 0;
}

const struct repo_named *repo_index_cache_names(const struct repo_index_cache *cache, size_t *ret_n)
{
	*ret_n = cache->header.n_names;
	return cache->names;
}

const struct repo_cached_pack *repo_index_cache_packs(const struct repo_index_cache *cache,
						      size_t *ret_n)
{
	*ret_n = cache->header.n_packs;
	return cache->packs;
}

const char *repo_index_cache_path(const struct repo_index_cache *cache)
{
	return cache->path;
}

size_t repo_index_cache_blobs(const struct repo_index_cache *cache)
{
	return cache->header.n_blobs;
}

bool repo_index_cache_damaged(const struct repo_index_cache *cache)
{
	return cache->damaged;
}

size_t repo_index_cache_page(struct repo_index_cache *cache, size_t page,
			     struct repo_cached_blob ret[REPO_INDEX_CACHE_PAGE])
{
	size_t first = page * REPO_INDEX_CACHE_PAGE;
	size_t left = cache->header.n_blobs - first;
	size_t n = left < REPO_INDEX_CACHE_PAGE ? left : REPO_INDEX_CACHE_PAGE;

	if (index_cache_read_all(cache, ret, n * sizeof(*ret),
				 REPO_INDEX_CACHE_START + first * sizeof(*ret)) &&
	    repo_index_cache_sum(ret, n) == cache->sums[page])
		return n;
	cache->damaged = true;
	return 0;
}

/* The first entry that is not less than the id. */
static size_t first_at(const struct repo_cached_blob *blobs, size_t n, const struct repo_id *id)
{
	size_t low = 0;

	while (low < n) {
		size_t middle = (low + n) / 2;

		if (repo_id_compare(&blobs[middle].id, id) < 0)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

bool repo_index_cache_find(struct repo_index_cache *cache, enum repo_blob_type type,
			   const struct repo_id *id, unsigned number, struct repo_cached_blob *ret,
			   unsigned *ret_n)
{
	size_t bucket = repo_index_cache_bucket(id, cache->header.fan_bits);
	size_t low = cache->fan[bucket], high = cache->fan[bucket + 1];
	struct repo_cached_blob blobs[REPO_INDEX_CACHE_PAGE];
	unsigned found = 0;

	*ret_n = 0;
	for (size_t page = low / REPO_INDEX_CACHE_PAGE; page * REPO_INDEX_CACHE_PAGE < high;
	     page++) {
		size_t n = repo_index_cache_page(cache, page, blobs);

		if (n == 0)
			return false;
		for (size_t i = first_at(blobs, n, id); i < n; i++) {
			if (!repo_id_equal(&blobs[i].id, id))
				break;
			if (blobs[i].tree != (type == REPO_BLOB_TREE) || found++ < number)
				continue;
			*ret = blobs[i];
			return ret->pack < cache->header.n_packs;
		}
	}
	*ret_n = found;
	return false;
}
