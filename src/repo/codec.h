/* SPDX-License-Identifier: Apache-2.0 */

/* What one thread needs to make and read stored bytes: compression, encryption
 * and hashing contexts and a buffer. Contexts are kept and handed out again,
 * because making them costs more than a small blob. */
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

/* Another key: codecs that hold the old one are freed. None may be in use. */
void repo_codec_pool_set_key(struct repo_codec_pool *pool, const struct repo_key *key);

int repo_codec_get(struct repo_codec_pool *pool, struct repo_codec **ret, struct cairn_err *err);
void repo_codec_put(struct repo_codec_pool *pool, struct repo_codec *codec);

struct repo_crypt *repo_codec_crypt(struct repo_codec *codec);

/* Room for `n` bytes to read to, and for `n` plain ones; what was there before is
 * lost. It is the codec's, and kept with it up to a limit: memory that is given
 * back and asked for again with each batch costs more than to fill it. NULL when
 * memory is short. */
uint8_t *repo_codec_sealed_room(struct repo_codec *codec, size_t n);
uint8_t *repo_codec_plain_room(struct repo_codec *codec, size_t n);

/* Compresses and seals; with `allow_raw`, what cannot be compressed stays as it is. The
 * bytes stay in the codec until its next use. *ret_plain is 0 when they were not
 * compressed. */
int repo_codec_encode(struct repo_codec *codec, const void *data, size_t n, bool allow_raw,
		      const uint8_t **ret_sealed, size_t *ret_n, uint32_t *ret_plain,
		      struct cairn_err *err);

/* Opens again what was encoded last, `n` bytes, and hashes it: it must be `id`. A bit
 * that tipped over in this machine would otherwise be found when it is restored. What
 * was encoded is gone after this.
 *
 * CAIRN_DATA_LOSS  it is something else
 */
int repo_codec_check(struct repo_codec *codec, size_t n, const struct repo_id *id,
		     struct cairn_err *err);

/* Opens `sealed`, which is overwritten, and uncompresses to `out`, which has room for what it
 * must become: `plain`, or without compression (plain == 0) n - REPO_SEAL.
 *
 * CAIRN_DATA_LOSS  damaged, or not of that size
 */
int repo_codec_decode(struct repo_codec *codec, uint8_t *sealed, size_t n, uint32_t plain,
		      uint8_t *out, struct cairn_err *err);

/* The two for files that are not packs: 0x02 and zstd, or plain JSON. `sealed`
 * is overwritten; `out` is appended to, up to its maximum. */
int repo_codec_encode_file(struct repo_codec *codec, const void *json, size_t n,
			   const uint8_t **ret_sealed, size_t *ret_n, struct cairn_err *err);
int repo_codec_decode_file(struct repo_codec *codec, uint8_t *sealed, size_t n,
			   struct cairn_buf *out, struct cairn_err *err);

/* Whether what was encoded last, `sealed_n` bytes, is the file `json`; it stays.
 *
 * CAIRN_DATA_LOSS  it is something else
 */
int repo_codec_check_file(struct repo_codec *codec, size_t sealed_n, const void *json, size_t n,
			  struct cairn_err *err);

#endif
