/* SPDX-License-Identifier: Apache-2.0 */

/* The contexts that one thread needs to encode and decode stored bytes:
 * compression, encryption, hashing and a buffer. Contexts are pooled, because
 * creating them costs more than a small blob. */
#ifndef CAIRN_REPO_CODEC_H
#define CAIRN_REPO_CODEC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/crypt.h"

struct cairn_err;
struct cairn_buf;
struct repo_codec;
struct repo_id;

struct repo_codec_pool {
	pthread_mutex_t mutex; /* guards `idle` */
	struct repo_codec *idle;
	struct repo_key key;
	int level; /* below 0: off */
};

void repo_codec_pool_init(struct repo_codec_pool *pool, const struct repo_key *key, int level);
void repo_codec_pool_done(struct repo_codec_pool *pool);

/* Sets another key: codecs that hold the old one are freed. None may be in
 * use. */
void repo_codec_pool_set_key(struct repo_codec_pool *pool, const struct repo_key *key);

int repo_codec_get(struct repo_codec_pool *pool, struct repo_codec **ret, struct cairn_err *err);
void repo_codec_put(struct repo_codec_pool *pool, struct repo_codec *codec);

struct repo_crypt *repo_codec_crypt(struct repo_codec *codec);

/* Buffers of `n` bytes for sealed and for plain bytes; earlier contents are lost.
 * They belong to the codec, which keeps them up to a limit: freeing and
 * allocating such memory for each batch costs more than filling it. NULL when
 * memory is short. */
uint8_t *repo_codec_sealed_room(struct repo_codec *codec, size_t n);
uint8_t *repo_codec_plain_room(struct repo_codec *codec, size_t n);

/* Compresses and seals; with `allow_raw`, incompressible bytes are left uncompressed.
 * The bytes stay in the codec until its next use. *ret_plain is 0 when they were not
 * compressed. */
int repo_codec_encode(struct repo_codec *codec, const void *data, size_t n, bool allow_raw,
		      const uint8_t **ret_sealed, size_t *ret_n, uint32_t *ret_plain,
		      struct cairn_err *err);

/* Decodes the last encoded `n` bytes again and checks that their hash is `id`.
 * Otherwise a bit flipped in this machine's memory would be noticed only at a
 * restore. The encoded bytes are lost after this.
 *
 * CAIRN_DATA_LOSS  the hash differs
 */
int repo_codec_check(struct repo_codec *codec, size_t n, const struct repo_id *id,
		     struct cairn_err *err);

/* The same, but hashes the decoded `plain_n` bytes only together with those of the next call, which
 * is faster. repo_codec_check_rest() must follow the last call; a failure may be that of the blob
 * before. */
int repo_codec_check_later(struct repo_codec *codec, size_t n, size_t plain_n,
			   const struct repo_id *id, struct cairn_err *err);
int repo_codec_check_rest(struct repo_codec *codec, struct cairn_err *err);

/* Opens `sealed`, which is overwritten, and decompresses it to `out`, which has room for the
 * expected size: `plain`, or n - REPO_SEAL without compression (plain == 0).
 *
 * CAIRN_DATA_LOSS  damaged, or not of that size
 */
int repo_codec_decode(struct repo_codec *codec, uint8_t *sealed, size_t n, uint32_t plain,
		      uint8_t *out, struct cairn_err *err);

/* The same for files that are not packs: 0x02 and zstd, or plain JSON. `sealed`
 * is overwritten; `out` is appended to, up to its maximum. */
int repo_codec_encode_file(struct repo_codec *codec, const void *json, size_t n,
			   const uint8_t **ret_sealed, size_t *ret_n, struct cairn_err *err);
int repo_codec_decode_file(struct repo_codec *codec, uint8_t *sealed, size_t n,
			   struct cairn_buf *out, struct cairn_err *err);

/* Checks that the last encoded `sealed_n` bytes decode to the file `json`; they
 * are kept.
 *
 * CAIRN_DATA_LOSS  they differ
 */
int repo_codec_check_file(struct repo_codec *codec, size_t sealed_n, const void *json, size_t n,
			  struct cairn_err *err);

#endif
