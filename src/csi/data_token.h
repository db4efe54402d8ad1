/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens that authorize reading the data of a changed block.
 *
 * A token contains a range of a snapshot and the time of issue in clear, followed by an
 * HMAC-SHA-256 over these and over the holder that it is bound to, which is not part of
 * the token. A token therefore grants no other range, snapshot or time, and must be
 * presented together with its holder. The text is base64url without padding, and each
 * token has exactly one text. The key is stored in the pool, so tokens survive a restart
 * and are valid at every driver of that pool.
 *
 * Bytes in, bytes out; the caller supplies the clock.
 */
#ifndef CAIRN_CSI_DATA_TOKEN_H
#define CAIRN_CSI_DATA_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/pool.h"

struct cairn_err;

#define CSI_TOKEN_KEY_BYTES 32U
#define CSI_TOKEN_MAC_BYTES 32U
/* Version, issue, lifetime, offset, length, length of the id, id, MAC. */
#define CSI_TOKEN_BYTES_MAX (1U + 8U + 4U + 8U + 8U + 1U + POOL_ID_MAX + CSI_TOKEN_MAC_BYTES)
#define CSI_TOKEN_TEXT_MAX  ((CSI_TOKEN_BYTES_MAX + 2U) / 3U * 4U) /* bytes, without the NUL */

/* Limit of the range of one token, which a handler streams in one call. */
#define CSI_TOKEN_LENGTH_MAX (1ULL << 40)

struct csi_token_key {
	uint8_t bytes[CSI_TOKEN_KEY_BYTES];
};

struct csi_data_token {
	char snapshot[POOL_ID_MAX + 1];
	uint64_t offset;
	uint64_t length;
	uint64_t issued_s; /* since 1970 */
	uint32_t ttl_s;
	const char *holder; /* signed but not in the text; NULL or "": any holder */
};

/* Seals many tokens: setting up a key costs five times as much as using it. Belongs to one
 * thread at a time. */
struct csi_token_sealer;

int csi_token_sealer_new(const struct csi_token_key *key, struct csi_token_sealer **ret,
			 struct cairn_err *err);
void csi_token_sealer_free(struct csi_token_sealer *sealer); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct csi_token_sealer, csi_token_sealer_free);

/* Writes the text and a NUL; `out` has room for CSI_TOKEN_TEXT_MAX + 1. Returns its
 * length, or 0 when memory is short. */
size_t csi_token_seal(struct csi_token_sealer *sealer, const struct csi_data_token *token,
		      char *out);

/* Verifies and decodes a token; `holder` must be the one it was sealed with. All failures
 * have the same text, except that of an expired token. The comparison of the MAC takes
 * constant time.
 *
 * CAIRN_UNAUTHENTICATED  not a valid token, expired, or not valid yet
 */
int csi_data_token_open(const struct csi_token_key *key, const char *text, const char *holder,
			uint64_t now_s, struct csi_data_token *ret, struct cairn_err *err);

/* Loads the pool's key; creates and stores one if there is none. */
int csi_token_key_load(struct pool *pool, struct csi_token_key *ret, struct cairn_err *err);

#endif
