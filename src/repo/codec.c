/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/codec.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "repo/codec_impl.h"
#include "repo/entropy.h"

#define FILE_COMPRESSED 2 /* first byte of a compressed file */

/* A buffer larger than this is not kept for the next blob. */
#define KEEP_MAX ((size_t)20 << 20)

/* Large buffers grow in steps of this size. */
#define ROOM_STEP ((size_t)1 << 20)

/* Data that looks random is compressed only if this level, several times faster than the
 * usual one, shrinks it; data that does not shrink by one part in GAIN_MIN is stored
 * uncompressed. */
#define PROBE_LEVEL (-5)
#define GAIN_MIN    64

uint8_t *repo_codec_make_room(struct room *room, size_t n)
{
	uint8_t *at;
	size_t cap;

	if (room->cap >= n && room->at)
		return room->at;
	/* Round up: the next blob is often a little larger, and the kernel has to clear
	 * newly allocated memory. */
	cap = n > ROOM_STEP ? n + ROOM_STEP - n % ROOM_STEP : n;
	at = cairn_alloc(cap);
	if (!at)
		return NULL;
	free(room->at);
	*room = (struct room){.at = at, .cap = cap};
	return at;
}

static void room_free(struct room *room)
{
	free(room->at);
	*room = (struct room){0};
}

static void drop_large(struct room *room)
{
	if (room->cap > KEEP_MAX)
		room_free(room);
}

static void codec_free(struct repo_codec *codec)
{
	if (!codec)
		return;
	repo_crypt_free(codec->crypt);
	ZSTD_freeCCtx(codec->compress);
	ZSTD_freeCCtx(codec->probe);
	ZSTD_freeDCtx(codec->uncompress);
	EVP_MD_CTX_free(codec->hash);
	room_free(&codec->made);
	room_free(&codec->sealed);
	room_free(&codec->plain);
	room_free(&codec->later);
	free(codec);
}
CAIRN_DEFINE_CLEANUP(struct repo_codec, codec_free);

void repo_codec_pool_init(struct repo_codec_pool *pool, const struct repo_key *key, int level)
{
	pthread_mutex_init(&pool->mutex, NULL);
	pool->idle = NULL;
	pool->key = *key;
	pool->level = level;
}

static void free_idle(struct repo_codec_pool *pool)
{
	while (pool->idle) {
		struct repo_codec *codec = pool->idle;

		pool->idle = codec->next;
		codec_free(codec);
	}
}

void repo_codec_pool_set_key(struct repo_codec_pool *pool, const struct repo_key *key)
{
	cairn_scoped_lock(&pool->mutex);
	free_idle(pool);
	pool->key = *key;
}

void repo_codec_pool_done(struct repo_codec_pool *pool)
{
	free_idle(pool);
	repo_key_clear(&pool->key);
	pthread_mutex_destroy(&pool->mutex);
}

static struct repo_codec *take_idle(struct repo_codec_pool *pool)
{
	cairn_scoped_lock(&pool->mutex);
	struct repo_codec *codec = pool->idle;

	if (codec)
		pool->idle = codec->next;
	return codec;
}

static bool set_level(ZSTD_CCtx *context, int level)
{
	return context &&
	       !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level));
}

static int codec_new(struct repo_codec_pool *pool, struct repo_codec **ret, struct cairn_err *err)
{
	cairn_cleanup(codec_freep) struct repo_codec *codec = cairn_calloc(1, sizeof(*codec));
	int rc;

	if (!codec)
		return cairn_err_nomem(err, "contexts");
	codec->level = pool->level;
	rc = repo_crypt_new(&pool->key, &codec->crypt, err);
	if (rc < 0)
		return rc;
	codec->compress = ZSTD_createCCtx();
	codec->probe = ZSTD_createCCtx();
	codec->uncompress = ZSTD_createDCtx();
	codec->hash = EVP_MD_CTX_new();
	if (!codec->uncompress || !codec->hash ||
	    !set_level(codec->compress, pool->level < 0 ? 1 : pool->level) ||
	    !set_level(codec->probe, PROBE_LEVEL))
		return cairn_err_nomem(err, "contexts");
	*ret = cairn_take(codec);
	return 0;
}

int repo_codec_get(struct repo_codec_pool *pool, struct repo_codec **ret, struct cairn_err *err)
{
	struct repo_codec *codec = take_idle(pool);

	if (!codec)
		return codec_new(pool, ret, err);
	*ret = codec;
	return 0;
}

void repo_codec_put(struct repo_codec_pool *pool, struct repo_codec *codec)
{
	if (!codec)
		return;
	drop_large(&codec->made);
	drop_large(&codec->sealed);
	drop_large(&codec->plain);
	codec->later_n = 0;
	cairn_scoped_lock(&pool->mutex);
	codec->next = pool->idle;
	pool->idle = codec;
}

struct repo_crypt *repo_codec_crypt(struct repo_codec *codec)
{
	return codec->crypt;
}

uint8_t *repo_codec_sealed_room(struct repo_codec *codec, size_t n)
{
	return repo_codec_make_room(&codec->sealed, n);
}

uint8_t *repo_codec_plain_room(struct repo_codec *codec, size_t n)
{
	return repo_codec_make_room(&codec->plain, n);
}

static int compress_to(struct repo_codec *codec, const void *data, size_t n, uint8_t *out,
		       size_t room, size_t *ret_n, struct cairn_err *err)
{
	size_t got = ZSTD_compress2(codec->compress, out, room, data, n);

	if (ZSTD_isError(got))
		return cairn_err_set(err, CAIRN_INTERNAL, "compression: %s",
				     ZSTD_getErrorName(got));
	*ret_n = got;
	return 0;
}

static bool codec_gains(size_t compressed, size_t n)
{
	return compressed < n - n / GAIN_MIN;
}

/* Overwrites `out` with a trial compression. */
static bool is_incompressible(struct repo_codec *codec, const void *data, size_t n, uint8_t *out,
			      size_t room)
{
	size_t got;

	if (!repo_looks_random(data, n))
		return false;
	got = ZSTD_compress2(codec->probe, out, room, data, n);
	return !ZSTD_isError(got) && !codec_gains(got, n);
}

int repo_codec_encode(struct repo_codec *codec, const void *data, size_t n, bool allow_raw,
		      const uint8_t **ret_sealed, size_t *ret_n, uint32_t *ret_plain,
		      struct cairn_err *err)
{
	size_t room = ZSTD_compressBound(n), body_n = n;
	uint8_t *to = repo_codec_make_room(&codec->made, room + REPO_SEAL);
	uint8_t *body;
	int rc = 0;

	if (!to)
		return cairn_err_nomem(err, "a blob");
	body = to + REPO_IV_SIZE;
	codec->raw =
		codec->level < 0 || (allow_raw && is_incompressible(codec, data, n, body, room));
	if (!codec->raw)
		rc = compress_to(codec, data, n, body, room, &body_n, err);
	if (rc == 0 && allow_raw && !codec->raw && !codec_gains(body_n, n)) {
		codec->raw = true;
		body_n = n;
	}
	if (rc == 0)
		rc = repo_crypt_seal(codec->crypt, codec->raw ? data : body, body_n, to, err);
	if (rc < 0)
		return rc;
	*ret_sealed = to;
	*ret_n = body_n + REPO_SEAL;
	*ret_plain = codec->raw ? 0 : (uint32_t)n;
	return 0;
}

int repo_codec_decode(struct repo_codec *codec, uint8_t *sealed, size_t n, uint32_t plain,
		      uint8_t *out, struct cairn_err *err)
{
	size_t got;
	int rc;

	if (plain == 0)
		return repo_crypt_open_to(codec->crypt, sealed, n, out, err);
	rc = repo_crypt_open(codec->crypt, sealed, n, err);
	if (rc < 0)
		return rc;
	got = ZSTD_decompressDCtx(codec->uncompress, out, plain, sealed + REPO_IV_SIZE,
				  n - REPO_SEAL);
	if (ZSTD_isError(got))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "uncompress: %s",
				     ZSTD_getErrorName(got));
	if (got != plain)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "%zu bytes where %u were expected", got,
				     plain);
	return 0;
}

int repo_codec_encode_file(struct repo_codec *codec, const void *json, size_t n,
			   const uint8_t **ret_sealed, size_t *ret_n, struct cairn_err *err)
{
	size_t room = ZSTD_compressBound(n) + 1, body_n = 0;
	uint8_t *to = repo_codec_make_room(&codec->made, room + REPO_SEAL);
	int rc;

	if (!to)
		return cairn_err_nomem(err, "a file");
	to[REPO_IV_SIZE] = FILE_COMPRESSED;
	rc = compress_to(codec, json, n, to + REPO_IV_SIZE + 1, room - 1, &body_n, err);
	if (rc == 0)
		rc = repo_crypt_seal(codec->crypt, to + REPO_IV_SIZE, body_n + 1, to, err);
	if (rc < 0)
		return rc;
	*ret_sealed = to;
	*ret_n = body_n + 1 + REPO_SEAL;
	return 0;
}

/* A frame does not always contain its size, so the output grows in steps. */
static int uncompress_all(struct repo_codec *codec, const uint8_t *data, size_t n,
			  struct cairn_buf *out, struct cairn_err *err)
{
	ZSTD_inBuffer in = {.src = data, .size = n};
	size_t left = 1;

	ZSTD_DCtx_reset(codec->uncompress, ZSTD_reset_session_only);
	while (in.pos < in.size || left != 0) {
		size_t step = out->max - out->len < ZSTD_DStreamOutSize() ? out->max - out->len
									  : ZSTD_DStreamOutSize();
		ZSTD_outBuffer to = {.size = step};
		size_t was = in.pos;

		to.dst = step > 0 ? cairn_buf_reserve(out, step) : NULL;
		if (!to.dst)
			return cairn_err_set(err, CAIRN_NO_SPACE,
					     "larger than %zu bytes, or memory is short", out->max);
		left = ZSTD_decompressStream(codec->uncompress, &to, &in);
		if (ZSTD_isError(left))
			return cairn_err_set(err, CAIRN_DATA_LOSS, "uncompress: %s",
					     ZSTD_getErrorName(left));
		out->len += to.pos;
		if (to.pos == 0 && in.pos == was && left != 0)
			return cairn_err_set(err, CAIRN_DATA_LOSS, "uncompress: cut short");
	}
	return 0;
}

int repo_codec_decode_file(struct repo_codec *codec, uint8_t *sealed, size_t n,
			   struct cairn_buf *out, struct cairn_err *err)
{
	const uint8_t *body = sealed + REPO_IV_SIZE;
	size_t body_n = n - REPO_SEAL;
	int rc = repo_crypt_open(codec->crypt, sealed, n, err);

	if (rc < 0)
		return rc;
	if (body_n == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "empty");
	if (body[0] == FILE_COMPRESSED)
		return uncompress_all(codec, body + 1, body_n - 1, out, err);
	if (body[0] != '{' && body[0] != '[')
		return cairn_err_set(err, CAIRN_DATA_LOSS, "unknown form %u", body[0]);
	cairn_buf_add(out, body, body_n);
	return cairn_buf_failed(out) ? cairn_err_nomem(err, "a file") : 0;
}
