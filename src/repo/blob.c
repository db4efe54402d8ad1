/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/blob.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/presence.h"
#include "repo/repo_impl.h"
#include "repo/sha256_pair.h"

bool repo_blob_has(struct repo *repo, enum repo_blob_type type, const struct repo_id *id)
{
	struct repo_place place;

	return repo_index_find(repo->index, type, id, &place);
}

static int blob_missing(const struct repo_id *id, struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];

	return cairn_err_set(err, CAIRN_NOT_FOUND, "blob %s is not in the repository",
			     repo_id_format(id, hex));
}

int repo_blob_size(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		   uint64_t *ret_size, struct cairn_err *err)
{
	struct repo_place place;

	if (!repo_index_find(repo->index, type, id, &place))
		return blob_missing(id, err);
	*ret_size = repo_place_size(&place);
	return 0;
}

bool repo_blob_lost(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		    uint64_t *ret_size)
{
	uint32_t size;

	if (repo_blob_has(repo, type, id) || !repo_index_find_gone(repo->index, type, id, &size))
		return false;
	*ret_size = size;
	return true;
}

int repo_blob_place(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		    struct repo_place *ret, struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];

	if (!repo->index_loaded)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the index is not loaded");
	if (!repo_index_find(repo->index, type, id, ret))
		return blob_missing(id, err);
	if (ret->state == REPO_PACK_OPEN)
		return cairn_err_set(err, CAIRN_PRECONDITION, "blob %s is not stored yet",
				     repo_id_format(id, hex));
	if (repo_place_size(ret) > REPO_BLOB_MAX || ret->length > REPO_BLOB_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "blob %s is larger than %zu bytes",
				     repo_id_format(id, hex), REPO_BLOB_MAX);
	return 0;
}

static int blob_decode(struct repo_codec *codec, const struct repo_blob_opening *opening,
		       struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];
	int rc = repo_codec_decode(codec, opening->sealed, opening->place->length,
				   opening->place->plain, opening->out, err);

	return rc < 0 ? cairn_err_wrap(err, "blob %s", repo_id_format(opening->id, hex)) : 0;
}

static int blob_compare(const struct repo_id *got, const struct repo_id *id, struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];

	if (repo_id_equal(got, id))
		return 0;
	return cairn_err_set(err, CAIRN_DATA_LOSS, "blob %s: its bytes do not hash to its id",
			     repo_id_format(id, hex));
}

int repo_blob_open(struct repo_codec *codec, const struct repo_id *id,
		   const struct repo_place *place, uint8_t *sealed, uint8_t *out,
		   struct cairn_err *err)
{
	struct repo_blob_opening opening = {.id = id, .place = place, .sealed = sealed, .out = out};
	struct repo_id got;
	int rc = blob_decode(codec, &opening, err);

	if (rc < 0)
		return rc;
	if (!repo_id_of(out, repo_place_size(place), &got))
		return cairn_err_nomem(err, "a hash");
	return blob_compare(&got, id, err);
}

void repo_blob_open_pair(struct repo_codec *codec, const struct repo_blob_opening openings[2],
			 int rc[2], struct cairn_err errs[2])
{
	const void *const data[2] = {openings[0].out, openings[1].out};
	struct repo_id got[2];
	bool hashed;

	for (int i = 0; i < 2; i++)
		rc[i] = blob_decode(codec, &openings[i], &errs[i]);
	/* Of a blob that could not be opened, this is the hash of what was in the memory. */
	hashed = repo_id_of_pair(data, repo_place_size(openings[0].place), got);
	for (int i = 0; i < 2; i++)
		if (rc[i] == 0)
			rc[i] = hashed ? blob_compare(&got[i], openings[i].id, &errs[i])
				       : cairn_err_nomem(&errs[i], "a hash");
}

static int blob_get(struct repo *repo, struct repo_codec *codec, const struct repo_id *id,
		    const struct repo_place *place, bool ahead, uint8_t *out, struct cairn_err *err)
{
	uint8_t *sealed = repo_codec_sealed_room(codec, place->length);
	int rc;

	if (!sealed)
		return cairn_err_nomem(err, "a blob");
	rc = ahead ? repo_tree_ahead_read(repo, place, sealed, err)
		   : repo_read(repo, &place->pack_id, place->offset, sealed, place->length, err);
	return rc < 0 ? rc : repo_blob_open(codec, id, place, sealed, out, err);
}

/* Allocates the blob and reads it with a codec of its own; with `ahead`, a tree with those before
 * it. */
static int blob_get_alone(struct repo *repo, const struct repo_id *id,
			  const struct repo_place *place, bool ahead, uint8_t **ret,
			  struct cairn_err *err)
{
	struct repo_codec *codec = NULL;
	int rc;

	*ret = cairn_alloc(repo_place_size(place));
	if (!*ret)
		return cairn_err_nomem(err, "a blob");
	rc = repo_codec_get(&repo->codecs, &codec, err);
	if (rc == 0)
		rc = blob_get(repo, codec, id, place, ahead, *ret, err);
	repo_codec_put(&repo->codecs, codec);
	return rc;
}

int repo_blob_verify_copy(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
			  unsigned number, struct cairn_err *err)
{
	cairn_auto_free uint8_t *out = NULL;
	char hex[REPO_ID_TEXT_MAX];
	struct repo_place place;

	if (!repo_index_find_copy(repo->index, type, id, number, &place))
		return blob_missing(id, err);
	if (place.state == REPO_PACK_OPEN)
		return cairn_err_set(err, CAIRN_PRECONDITION, "blob %s is not stored yet",
				     repo_id_format(id, hex));
	if (repo_place_size(&place) > REPO_BLOB_MAX || place.length > REPO_BLOB_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "blob %s is larger than %zu bytes",
				     repo_id_format(id, hex), REPO_BLOB_MAX);
	return blob_get_alone(repo, id, &place, false, &out, err);
}

/* No copy of the blob could be opened, so distrust its packs. Only writers keep such a list. */
static void doubt_copies(struct repo *repo, enum repo_blob_type type, const struct repo_id *id)
{
	struct repo_place place;

	for (unsigned i = 0;
	     repo->packs_confirmed && repo_index_find_copy(repo->index, type, id, i, &place); i++)
		if (place.state != REPO_PACK_OPEN)
			repo_doubt_pack(repo, &place.pack_id);
}

int repo_blob_get_copy(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		       uint8_t *out, uint32_t size, int failed)
{
	struct repo_codec *codec = NULL; /* the caller's codec holds the failed blob */
	struct repo_place place;
	int rc = failed;

	if (failed != CAIRN_DATA_LOSS || repo_codec_get(&repo->codecs, &codec, NULL) < 0)
		return failed;
	for (unsigned i = 1; rc < 0 && repo_index_find_copy(repo->index, type, id, i, &place); i++)
		if (place.state != REPO_PACK_OPEN && repo_place_size(&place) == size &&
		    place.length <= REPO_BLOB_MAX)
			rc = blob_get(repo, codec, id, &place, false, out, NULL);
	repo_codec_put(&repo->codecs, codec);
	if (rc < 0) {
		doubt_copies(repo, type, id);
		return failed;
	}
	if (!atomic_exchange(&repo->damaged, true))
		cairn_log(CAIRN_LOG_WARN, "a pack is damaged; its data was read from another pack. "
					  "'cairn backup verify' lists the damaged packs");
	return 0;
}

int repo_blob_get(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		  uint8_t **ret_data, size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_free uint8_t *out = NULL;
	struct repo_place place;
	int rc = repo_blob_place(repo, type, id, &place, err);

	if (rc < 0)
		return rc;
	rc = blob_get_alone(repo, id, &place, type == REPO_BLOB_TREE, &out, err);
	if (rc < 0)
		rc = repo_blob_get_copy(repo, type, id, out, repo_place_size(&place), rc);
	if (rc < 0)
		return rc;
	*ret_data = cairn_take(out);
	*ret_n = repo_place_size(&place);
	return 0;
}
