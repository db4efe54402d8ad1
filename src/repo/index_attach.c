/* SPDX-License-Identifier: Apache-2.0 */

/* Cached index files, which the index searches where they are. */

#include "repo/index.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/index_cache.h"
#include "repo/index_impl.h"

static int know_packs(struct repo_index *index, const struct repo_index_cache *cache,
		      uint32_t *numbers, struct cairn_err *err)
{
	size_t n;
	const struct repo_cached_pack *packs = repo_index_cache_packs(cache, &n);
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = repo_index_pack(index, &packs[i].id, REPO_PACK_INDEXED, &numbers[i], NULL,
				     err);
	return rc;
}

int repo_index_attach(struct repo_index *index, struct repo_index_cache *cache,
		      struct cairn_err *err)
{
	cairn_cleanup(repo_index_cache_freep) struct repo_index_cache *own = cache;
	cairn_auto_free uint32_t *numbers = NULL;
	struct index_attached *more;
	size_t n;
	int rc;

	(void)repo_index_cache_packs(cache, &n);
	numbers = cairn_calloc(n, sizeof(*numbers));
	if (!numbers)
		return cairn_err_nomem(err, "the index");
	rc = know_packs(index, cache, numbers, err);
	if (rc)
		return rc;
	writing(index);
	more = cairn_realloc_array(index->attached, index->n_attached + 1, sizeof(*more));
	if (!more)
		return cairn_err_nomem(err, "the index");
	index->attached = more;
	more[index->n_attached++] = (struct index_attached){cairn_take(own), cairn_take(numbers)};
	return 0;
}

void repo_index_detach(struct repo_index *index)
{
	writing(index);

	for (size_t i = 0; i < index->n_attached; i++) {
		repo_index_cache_free(index->attached[i].cache);
		free(index->attached[i].packs);
	}
	free(index->attached);
	index->attached = NULL;
	index->n_attached = 0;
}

bool repo_index_find_attached(const struct repo_index *index, enum repo_blob_type type,
			      const struct repo_id *id, unsigned number, struct repo_place *ret)
{
	for (size_t i = 0; i < index->n_attached; i++) {
		const struct index_attached *attached = &index->attached[i];
		struct repo_cached_blob blob;
		unsigned n;

		if (!repo_index_cache_find(attached->cache, type, id, number, &blob, &n)) {
			number -= n;
			continue;
		}
		*ret = (struct repo_place){.state = REPO_PACK_INDEXED,
					   .pack = attached->packs[blob.pack],
					   .offset = blob.offset,
					   .length = blob.length,
					   .plain = blob.plain};
		ret->pack_id = index->packs[ret->pack].id;
		return true;
	}
	return false;
}

size_t repo_index_attached(struct repo_index *index)
{
	reading(index);
	return index->n_attached;
}

struct repo_index_cache *repo_index_attached_at(struct repo_index *index, size_t i)
{
	reading(index);
	return index->attached[i].cache;
}
