/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/index_write.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/index.h"
#include "repo/index_file.h"
#include "repo/repo_impl.h"

struct writing {
	struct repo *repo;
	const struct repo_index_order *order;
	struct cairn_buf json;
	uint64_t blobs; /* number of blobs in `json` */
};

static int save_file(struct writing *writing, struct cairn_err *err)
{
	struct repo_id name;
	int rc;

	repo_index_file_end(&writing->json);
	if (cairn_buf_failed(&writing->json))
		return cairn_err_nomem(err, "an index");
	rc = repo_file_save(writing->repo, REPO_FILE_INDEX, writing->json.data, writing->json.len,
			    &name, err);
	cairn_buf_reset(&writing->json);
	repo_index_file_begin(&writing->json);
	writing->blobs = 0;
	return rc;
}

/* Adds a pack. With `lost`, adds only blobs that are in no other pack. */
static int index_write_add_pack(struct writing *writing, uint32_t pack, bool lost,
				struct cairn_err *err)
{
	const struct repo_index_order *order = writing->order;
	struct repo_index *index = writing->repo->index;
	uint32_t first = order->starts[pack], end = order->starts[pack + 1];
	cairn_auto_free struct repo_pack_blob *blobs = cairn_calloc(end - first, sizeof(*blobs));
	struct repo_id id;
	uint32_t number;
	size_t n = 0;

	if (!blobs)
		return cairn_err_nomem(err, "the blobs of a pack");
	for (uint32_t i = first; i < end; i++) {
		struct repo_place place;

		repo_index_at(index, order->order[i], &blobs[n], &number);
		n += !lost || !repo_index_find(index, (enum repo_blob_type)blobs[n].type,
					       &blobs[n].id, &place);
	}
	repo_index_pack_at(index, pack, &id);
	if (n > 0)
		repo_index_file_pack(&writing->json, &id, blobs, n);
	writing->blobs += n;
	return 0;
}

static int index_write_add_lost(struct writing *writing, struct cairn_err *err)
{
	int rc = 0;

	repo_index_file_lost(&writing->json);
	for (uint32_t p = 0; rc == 0 && p < writing->order->packs; p++) {
		struct repo_id id;

		if (repo_index_pack_at(writing->repo->index, p, &id) == REPO_PACK_GONE)
			rc = index_write_add_pack(writing, p, true, err);
	}
	return rc;
}

static int index_write_all(struct writing *writing, bool (*keeps)(void *arg, uint32_t pack),
			   void *arg, bool lost, struct cairn_err *err)
{
	const uint32_t *starts = writing->order->starts;
	int rc = 0;

	repo_index_file_begin(&writing->json);
	for (uint32_t p = 0; rc == 0 && p < writing->order->packs; p++) {
		uint32_t n = starts[p + 1] - starts[p];

		if (!keeps(arg, p))
			continue;
		if (writing->blobs > 0 && writing->blobs + n > REPO_INDEX_BLOBS)
			rc = save_file(writing, err);
		if (rc == 0)
			rc = index_write_add_pack(writing, p, false, err);
	}
	if (rc == 0 && lost)
		rc = index_write_add_lost(writing, err);
	return rc == 0 && writing->blobs > 0 ? save_file(writing, err) : rc;
}

int repo_index_write(struct repo *repo, const struct repo_index_order *order,
		     bool (*keeps)(void *arg, uint32_t pack), void *arg, bool lost,
		     struct cairn_err *err)
{
	struct writing writing = {
		.repo = repo, .order = order, .json = CAIRN_BUF_INIT(REPO_INDEX_JSON_MAX)};
	int rc = index_write_all(&writing, keeps, arg, lost, err);

	cairn_buf_done(&writing.json);
	return rc;
}
