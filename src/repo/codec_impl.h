/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the files that implement codec.h. */
#ifndef CAIRN_REPO_CODEC_IMPL_H
#define CAIRN_REPO_CODEC_IMPL_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

#include "repo/codec.h"
#include "repo/id.h"

struct room {
	uint8_t *at;
	size_t cap;
};

struct repo_codec {
	struct repo_codec *next;
	struct repo_crypt *crypt;
	ZSTD_CCtx *compress;
	ZSTD_CCtx *probe;
	ZSTD_DCtx *uncompress;
	EVP_MD_CTX *hash;
	struct room made;   /* encoded data */
	struct room sealed; /* data read from the store */
	struct room plain;
	struct room later; /* a blob that was opened again and is not hashed yet, */
	size_t later_n;    /* its length, 0: none, */
	struct repo_id later_id;
	int level;
	bool raw; /* the encoded data is not compressed */
};

/* Makes space for `n` bytes, without keeping the contents. NULL if memory is short. */
uint8_t *repo_codec_make_room(struct room *room, size_t n);

#endif
