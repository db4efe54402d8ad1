/* SPDX-License-Identifier: Apache-2.0 */

/* Removes missing and damaged packs from the index; check.h describes the order. */

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/check_impl.h"
#include "repo/index_write.h"
#include "repo/pack_header.h"
#include "repo/repack.h"
#include "repo/repo_impl.h"

/* Copies the readable blobs of a damaged pack into new packs, unless an intact pack holds them. */
static int save_readable(struct repo_checking *checking, uint32_t pack, struct cairn_err *err)
{
	const struct repo_index_order *order = &checking->order;
	uint32_t first = order->starts[pack], end = order->starts[pack + 1];
	cairn_auto_free struct repo_pack_blob *blobs = cairn_calloc(end - first, sizeof(*blobs));
	size_t n = 0;
	int rc;

	if (!blobs)
		return cairn_err_nomem(err, "the blobs of a pack");
	for (uint32_t i = first; i < end; i++) {
		struct repo_pack_blob *blob = &blobs[n];
		uint64_t size;
		uint32_t number;

		repo_index_at(checking->repo->index, order->order[i], blob, &number);
		n += !repo_check_is_bad(checking, order->order[i]) &&
		     !repo_check_has_blob(checking, (enum repo_blob_type)blob->type, &blob->id,
					  false, &size);
	}
	rc = n > 0 ? repo_repack(checking->repo, pack, blobs, n, err) : 0;
	checking->stats.blobs_saved += rc == 0 ? n : 0;
	return rc;
}

static int drop_pack(struct repo_checking *checking, uint32_t pack, struct cairn_err *err)
{
	struct repo_id id;
	int rc = repo_go_on(checking->repo, err);

	/* A truncated pack was found by its size alone; its blobs were not read yet. */
	if (rc == 0 && !checking->options->read_data)
		rc = repo_check_pack_data(checking, pack, err);
	if (rc == 0)
		rc = save_readable(checking, pack, err);
	if (rc < 0)
		return rc;
	repo_index_pack_at(checking->repo->index, pack, &id);
	repo_index_pack_set(checking->repo->index, pack, &id, REPO_PACK_GONE);
	checking->stats.packs_dropped++;
	return 0;
}

static void count_lost(struct repo_checking *checking)
{
	for (uint32_t p = 0; p < checking->order.packs; p++) {
		const uint32_t *starts = checking->order.starts;

		for (uint32_t i = starts[p]; checking->bad_packs[p] && i < starts[p + 1]; i++) {
			struct repo_pack_blob blob;
			struct repo_place place;
			uint32_t number;

			repo_index_at(checking->repo->index, checking->order.order[i], &blob,
				      &number);
			checking->stats.blobs_lost +=
				!repo_index_find(checking->repo->index,
						 (enum repo_blob_type)blob.type, &blob.id, &place);
		}
	}
}

static bool repair_packs_stays(void *arg, uint32_t pack)
{
	const struct repo_checking *checking = arg;
	struct repo_id id;

	return repo_index_pack_at(checking->repo->index, pack, &id) == REPO_PACK_INDEXED;
}

static int remove_old_index(struct repo_checking *checking, struct cairn_err *err)
{
	struct repo *repo = checking->repo;
	int rc = repo_may_delete(repo, err);

	for (size_t i = 0; rc == 0 && i < checking->indexes.n; i++) {
		rc = repo_may_delete_more(repo, err);
		if (rc == 0)
			rc = repo_store_remove(repo->store, REPO_FILE_INDEX,
					       &checking->indexes.items[i].name, err);
	}
	return rc;
}

/* Deletes the damaged packs, whose blobs are no longer needed from there. A pack that
 * stayed in no index would be adopted as one of an interrupted backup. */
static int remove_dropped(struct repo_checking *checking, struct cairn_err *err)
{
	struct repo *repo = checking->repo;
	int rc = repo_may_delete(repo, err);

	for (uint32_t p = 0; rc == 0 && p < checking->order.packs; p++) {
		struct repo_id id;

		repo_index_pack_at(repo->index, p, &id);
		if (!checking->bad_packs[p] || !repo_names_find(&checking->packs, &id))
			continue;
		rc = repo_may_delete_more(repo, err);
		if (rc == 0)
			rc = repo_store_remove(repo->store, REPO_FILE_PACK, &id, err);
	}
	return rc;
}

int repo_repair_packs(struct repo_checking *checking, struct cairn_err *err)
{
	struct repo *repo = checking->repo;
	int rc = 0;

	for (uint32_t p = 0; rc == 0 && p < checking->order.packs; p++)
		if (checking->bad_packs[p])
			rc = drop_pack(checking, p, err);
	if (rc < 0 || checking->stats.packs_dropped == 0)
		return rc;
	rc = repo_flush(repo, err);
	if (rc == 0)
		rc = repo_index_write(repo, &checking->order, repair_packs_stays, checking, true,
				      err);
	if (rc == 0)
		rc = remove_old_index(checking, err);
	if (rc == 0)
		rc = remove_dropped(checking, err);
	if (rc == 0)
		count_lost(checking);
	return rc;
}
