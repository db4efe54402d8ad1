/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repack.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/packer.h"
#include "repo/repo_impl.h"

/* Blobs with a gap of at most GAP_MAX are read together, at most READ_MAX bytes at a time. */
#define GAP_MAX  (256U << 10)
#define READ_MAX (16U << 20)

int repo_repack_blob(struct repo *repo, const struct repo_pack_blob *blob, uint8_t *sealed,
		     struct cairn_err *err)
{
	struct repo_place place = {.length = blob->length, .plain = blob->plain};
	cairn_auto_free uint8_t *out = NULL, *again = NULL;
	struct repo_codec *codec = NULL;
	struct repo_sealed fresh = {.id = blob->id, .plain = blob->plain, .n = blob->length};
	int rc;

	if (repo_place_size(&place) > REPO_BLOB_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "a blob is larger than %zu bytes",
				     REPO_BLOB_MAX);
	out = cairn_alloc(repo_place_size(&place));
	again = cairn_alloc(blob->length);
	if (!out || !again)
		return cairn_err_nomem(err, "a blob");
	rc = repo_codec_get(&repo->codecs, &codec, err);
	if (rc < 0)
		return rc;
	rc = repo_blob_open(codec, &blob->id, &place, sealed, out, err);
	/* A compressed blob was decrypted in place, and is stored without compressing it again. */
	if (rc == 0)
		rc = repo_crypt_seal(repo_codec_crypt(codec),
				     blob->plain ? sealed + REPO_IV_SIZE : out,
				     blob->length - REPO_SEAL, again, err);
	repo_codec_put(&repo->codecs, codec);
	if (rc == 0)
		rc = repo_index_reserve_copy(repo->index, (enum repo_blob_type)blob->type,
					     &blob->id, &fresh.entry, err);
	if (rc == 0)
		rc = repo_packer_append(repo->packer, (enum repo_blob_type)blob->type, &fresh, 1,
					again, err);
	return rc;
}

static size_t repack_run_of(const struct repo_pack_blob *blobs, size_t n, uint64_t *ret_end)
{
	uint64_t start = blobs[0].offset, end = start + blobs[0].length;
	size_t count = 1;

	for (; count < n; count++) {
		uint64_t next = (uint64_t)blobs[count].offset + blobs[count].length;

		if (blobs[count].offset > end + GAP_MAX || next - start > READ_MAX)
			break;
		end = next > end ? next : end;
	}
	*ret_end = end;
	return count;
}

static int move_run(struct repo *repo, const struct repo_id *id, const struct repo_pack_blob *blobs,
		    size_t n, uint64_t end, struct cairn_err *err)
{
	uint64_t start = blobs[0].offset;
	cairn_auto_free uint8_t *data = cairn_alloc(end - start);
	int rc;

	if (!data)
		return cairn_err_nomem(err, "a pack");
	rc = repo_read(repo, id, start, data, end - start, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = repo_repack_blob(repo, &blobs[i], data + (blobs[i].offset - start), err);
	return rc;
}

int repo_repack(struct repo *repo, uint32_t pack, const struct repo_pack_blob *blobs, size_t n,
		struct cairn_err *err)
{
	char hex[REPO_ID_TEXT_MAX];
	struct cairn_err why = {0};
	struct repo_id id;
	int rc = 0;

	repo_index_pack_at(repo->index, pack, &id);
	for (size_t i = 0, count; rc == 0 && i < n; i += count) {
		uint64_t end;

		count = repack_run_of(blobs + i, n - i, &end);
		rc = move_run(repo, &id, blobs + i, count, end, &why);
	}
	return rc < 0 ? cairn_err_set(err, rc, "pack %s: %s", repo_id_format(&id, hex), why.msg)
		      : 0;
}
