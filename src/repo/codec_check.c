/* SPDX-License-Identifier: Apache-2.0 */

/* Opens again what was encoded, before it is stored; docs/decisions/083 explains why. */

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "repo/codec_impl.h"
#include "repo/crypt.h"
#include "repo/repo_digest.h"
#include "repo/sha256_pair.h"

/* Data that is decompressed only to be hashed is processed in pieces of this
 * size. */
#define PIECE_BYTES ((size_t)128 << 10)

static bool hash_uncompressed(struct repo_codec *codec, const uint8_t *body, size_t n,
			      uint8_t *piece)
{
	ZSTD_inBuffer in = {.src = body, .size = n};
	ZSTD_outBuffer out = {.dst = piece, .size = PIECE_BYTES};
	size_t left = 1;

	ZSTD_DCtx_reset(codec->uncompress, ZSTD_reset_session_only);
	while (left != 0) {
		size_t was = in.pos;

		out.pos = 0;
		left = ZSTD_decompressStream(codec->uncompress, &out, &in);
		if (ZSTD_isError(left) || (out.pos == 0 && in.pos == was) ||
		    EVP_DigestUpdate(codec->hash, out.dst, out.pos) != 1)
			return false;
	}
	return in.pos == in.size;
}

static int not_the_same(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "what was made to be stored cannot be read again: memory or "
			     "processor of this machine is faulty");
}

int repo_codec_check(struct repo_codec *codec, size_t n, const struct repo_id *id,
		     struct cairn_err *err)
{
	const uint8_t *body = codec->made.at + REPO_IV_SIZE;
	uint8_t *piece = repo_codec_make_room(&codec->plain, PIECE_BYTES);
	struct repo_id found;
	bool ok;

	if (!piece || EVP_DigestInit_ex(codec->hash, repo_sha256(), NULL) != 1)
		return cairn_err_nomem(err, "a blob");
	ok = repo_crypt_open(codec->crypt, codec->made.at, n, NULL) == 0;
	if (ok && codec->raw)
		ok = EVP_DigestUpdate(codec->hash, body, n - REPO_SEAL) == 1;
	else if (ok)
		ok = hash_uncompressed(codec, body, n - REPO_SEAL, piece);
	ok = ok && EVP_DigestFinal_ex(codec->hash, found.bytes, NULL) == 1;
	return ok && repo_id_equal(&found, id) ? 0 : not_the_same(err);
}

static int codec_check_id(const struct repo_id *found, const struct repo_id *id,
			  struct cairn_err *err)
{
	return repo_id_equal(found, id) ? 0 : not_the_same(err);
}

int repo_codec_check_rest(struct repo_codec *codec, struct cairn_err *err)
{
	size_t n = codec->later_n;
	struct repo_id found;

	codec->later_n = 0;
	if (n == 0)
		return 0;
	if (!repo_id_of(codec->later.at, n, &found))
		return cairn_err_nomem(err, "a hash");
	return codec_check_id(&found, &codec->later_id, err);
}

/* Hashes the blob in `plain` with the one that waits. */
static int codec_check_pair(struct repo_codec *codec, const struct repo_id *id,
			    struct cairn_err *err)
{
	const void *const data[2] = {codec->later.at, codec->plain.at};
	size_t n = codec->later_n;
	struct repo_id found[2];
	int rc;

	codec->later_n = 0;
	if (!repo_id_of_pair(data, n, found))
		return cairn_err_nomem(err, "a hash");
	rc = codec_check_id(&found[0], &codec->later_id, err);
	return rc < 0 ? rc : codec_check_id(&found[1], id, err);
}

int repo_codec_check_later(struct repo_codec *codec, size_t n, size_t plain_n,
			   const struct repo_id *id, struct cairn_err *err)
{
	struct room plain;
	uint8_t *out;
	int rc;

	if (plain_n > PIECE_BYTES)
		return repo_codec_check(codec, n, id, err);
	out = repo_codec_make_room(&codec->plain, PIECE_BYTES);
	if (!out)
		return cairn_err_nomem(err, "a blob");
	if ((codec->raw && n - REPO_SEAL != plain_n) ||
	    repo_codec_decode(codec, codec->made.at, n, codec->raw ? 0 : (uint32_t)plain_n, out,
			      NULL) < 0)
		return not_the_same(err);
	if (codec->later_n == plain_n)
		return codec_check_pair(codec, id, err);
	rc = repo_codec_check_rest(codec, err);
	plain = codec->plain;
	codec->plain = codec->later;
	codec->later = plain;
	codec->later_n = plain_n;
	codec->later_id = *id;
	return rc;
}

int repo_codec_check_file(struct repo_codec *codec, size_t sealed_n, const void *json, size_t n,
			  struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf found = CAIRN_BUF_INIT(n + 1);
	uint8_t *copy = repo_codec_make_room(&codec->sealed, sealed_n);

	if (!copy || !cairn_buf_reserve(&found, n + 1))
		return cairn_err_nomem(err, "a file");
	memcpy(copy, codec->made.at, sealed_n);
	if (repo_codec_decode_file(codec, copy, sealed_n, &found, NULL) < 0 || found.len != n ||
	    memcmp(found.data, json, n) != 0)
		return not_the_same(err);
	return 0;
}
