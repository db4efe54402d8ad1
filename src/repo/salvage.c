/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/salvage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob.h"
#include "repo/index.h"
#include "repo/index_write.h"
#include "repo/load.h"
#include "repo/names.h"
#include "repo/pack_header.h"
#include "repo/repack.h"
#include "repo/repo.h"
#include "repo/repo_impl.h"
#include "repo/repo_store.h"

struct salvaging {
	struct repo *repo;
	struct repo_repair_stats *stats;
	struct repo_names done; /* damaged packs whose blobs were stored again or recorded */
	uint64_t lost;          /* blobs that no index recorded as lost before */
};

/* True for a pack that no index file names, or that one records as lost. */
static bool salvage_wants(struct repo *repo, const struct repo_id *name)
{
	struct repo_id id;
	uint32_t number;

	return !repo_index_has_pack(repo->index, name) ||
	       repo_index_pack(repo->index, name, REPO_PACK_GONE, &number, NULL, NULL) < 0 ||
	       repo_index_pack_at(repo->index, number, &id) == REPO_PACK_GONE;
}

static int record_lost(struct salvaging *salvaging, uint32_t pack,
		       const struct repo_pack_blob *blob, struct cairn_err *err)
{
	struct repo_index *index = salvaging->repo->index;
	uint32_t size;

	if (repo_index_find_gone(index, (enum repo_blob_type)blob->type, &blob->id, &size))
		return 0;
	salvaging->lost++;
	return repo_index_add(index, pack, blob, false, err);
}

/* True if another pack has the blob, which is read: the index may name a pack that is lost or
 * damaged, and the damaged pack at hand is deleted afterwards. */
static int salvage_is_elsewhere(struct repo *repo, const struct repo_pack_blob *blob, bool *ret,
				struct cairn_err *err)
{
	enum repo_blob_type type = (enum repo_blob_type)blob->type;
	cairn_auto_free uint8_t *data = NULL;
	struct cairn_err why = {0};
	struct repo_place place;
	size_t n;
	int rc;

	*ret = repo_index_find(repo->index, type, &blob->id, &place) &&
	       place.state == REPO_PACK_OPEN; /* this repair stored it */
	if (*ret)
		return 0;
	rc = repo_blob_get(repo, type, &blob->id, &data, &n, &why);
	*ret = rc == 0;
	if (*ret || rc == CAIRN_NOT_FOUND || rc == CAIRN_DATA_LOSS)
		return 0;
	return cairn_err_set(err, rc, "%s", why.msg);
}

/* Opens a blob that is in no other pack, and stores it again. */
static int salvage_blob(struct salvaging *salvaging, uint32_t pack,
			const struct repo_pack_blob *blob, uint8_t *data, struct cairn_err *err)
{
	struct repo *repo = salvaging->repo;
	struct repo_place place = {.length = blob->length, .plain = blob->plain};
	struct cairn_err why = {0};
	bool elsewhere;
	int rc = salvage_is_elsewhere(repo, blob, &elsewhere, err);

	if (rc < 0 || elsewhere)
		return rc;
	rc = repo_place_size(&place) > REPO_BLOB_MAX
		     ? CAIRN_DATA_LOSS
		     : repo_repack_blob(repo, blob, data + blob->offset, &why);
	if (rc == 0) {
		salvaging->stats->blobs_saved++;
		return 0;
	}
	if (rc != CAIRN_DATA_LOSS)
		return cairn_err_set(err, rc, "%s", why.msg);
	rc = repo_failed(repo, err); /* of the store, not of this blob */
	return rc < 0 ? rc : record_lost(salvaging, pack, blob, err);
}

/* Saves what can be read of `data`, the bytes of a damaged pack, which are overwritten. */
static int salvage_data(struct salvaging *salvaging, const struct repo_named *pack, uint8_t *data,
			struct cairn_err *err)
{
	cairn_auto_free struct repo_pack_blob *blobs = NULL;
	struct repo *repo = salvaging->repo;
	size_t n = 0, need = 0;
	uint32_t number;
	int rc = repo_pack_parse_tail(repo, data, (size_t)pack->size, pack->size, &blobs, &n, &need,
				      err);

	if (rc == 0)
		rc = repo_index_pack(repo->index, &pack->name, REPO_PACK_GONE, &number, NULL, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = salvage_blob(salvaging, number, &blobs[i], data, err);
	if (rc == 0)
		rc = repo_names_add(&salvaging->done, pack, err);
	salvaging->stats->packs_damaged += rc == 0;
	return rc;
}

/* The bytes are read here a second time after repo_adopt_packs(): they may have been damaged in
 * transit.
 *
 * CAIRN_DATA_LOSS  the header is damaged, or the file cannot be read */
static int salvage_pack(struct salvaging *salvaging, const struct repo_named *pack,
			struct cairn_err *err)
{
	cairn_auto_free uint8_t *data = NULL;
	struct repo *repo = salvaging->repo;
	uint64_t blobs = 0;
	bool intact;
	int rc;

	if (pack->size == 0 || pack->size > UINT32_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "no pack has this size");
	rc = repo_pack_read(repo, pack, &data, &intact, err);
	if (rc < 0)
		return rc;
	if (!intact)
		return salvage_data(salvaging, pack, data, err);
	rc = repo_adopt_pack(repo, pack, &blobs, err);
	salvaging->stats->packs += rc == 0;
	return rc;
}

static int salvage_all(struct salvaging *salvaging, const struct repo_names *packs,
		       struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < packs->n; i++) {
		struct cairn_err why = {0};

		if (!salvage_wants(salvaging->repo, &packs->items[i].name))
			continue;
		rc = repo_go_on(salvaging->repo, &why);
		if (rc == 0)
			rc = salvage_pack(salvaging, &packs->items[i], &why);
		if (rc == CAIRN_DATA_LOSS) {
			rc = repo_failed(salvaging->repo, &why);
			salvaging->stats->packs_unreadable += rc == 0;
		}
		if (rc < 0)
			rc = cairn_err_set(err, rc, "%s", why.msg);
	}
	return rc;
}

static bool salvage_writes_no_pack(void *arg, uint32_t pack)
{
	(void)arg;
	(void)pack;
	return false;
}

/* Counts the blobs of the damaged packs that no pack has. */
static uint64_t salvage_count_lost(struct salvaging *salvaging,
				   const struct repo_index_order *order)
{
	struct repo_index *index = salvaging->repo->index;
	uint64_t lost = 0;

	for (uint32_t i = 0; i < order->starts[order->packs]; i++) {
		struct repo_pack_blob blob;
		struct repo_place place;
		struct repo_id id;
		uint32_t pack;

		repo_index_at(index, order->order[i], &blob, &pack);
		repo_index_pack_at(index, pack, &id);
		lost += repo_names_find(&salvaging->done, &id) &&
			!repo_index_find(index, (enum repo_blob_type)blob.type, &blob.id, &place);
	}
	return lost;
}

/* The new packs are in index files already; this one lists what is lost. */
static int salvage_write_lost(struct salvaging *salvaging, struct cairn_err *err)
{
	struct repo_index_order order = {0};
	int rc = repo_index_sort(salvaging->repo->index, &order, err);

	if (rc == 0)
		rc = repo_index_write(salvaging->repo, &order, salvage_writes_no_pack, NULL, true,
				      err);
	if (rc == 0)
		salvaging->stats->blobs_lost += salvage_count_lost(salvaging, &order);
	repo_index_order_done(&order);
	return rc;
}

static int remove_salvaged(struct salvaging *salvaging, struct cairn_err *err)
{
	struct repo *repo = salvaging->repo;
	int rc = salvaging->done.n > 0 ? repo_may_delete(repo, err) : 0;

	for (size_t i = 0; rc == 0 && i < salvaging->done.n; i++) {
		rc = repo_may_delete_more(repo, err);
		if (rc == 0)
			rc = repo_store_remove(repo->store, REPO_FILE_PACK,
					       &salvaging->done.items[i].name, err);
	}
	return rc;
}

int repo_salvage_packs(struct repo *repo, struct repo_repair_stats *stats, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names packs = {0};
	struct salvaging salvaging = {.repo = repo, .stats = stats};
	int rc = repo_names_list(repo->store, REPO_FILE_PACK, &packs, err);

	if (rc == 0)
		rc = salvage_all(&salvaging, &packs, err);
	if (rc == 0)
		rc = repo_flush(repo, err);
	repo_names_sort(&salvaging.done);
	if (rc == 0 && salvaging.lost > 0)
		rc = salvage_write_lost(&salvaging, err);
	if (rc == 0)
		rc = remove_salvaged(&salvaging, err);
	repo_names_done(&salvaging.done);
	return rc;
}
