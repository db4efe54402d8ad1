/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens that fetch the data of a changed block.
 *
 * A token names a range of a snapshot and when it was issued, in clear, followed
 * by an HMAC-SHA-256 over it and over the text that it was bound to (its holder), which
 * is not in it: whoever has one can not reach any other range, snapshot or time, and
 * must say for whom it was made. Its text is base64 for URLs without padding, and exactly one
 * text stands for one token. The key lives with the pool, so tokens outlive a
 * restart and are good at every driver of that pool.
 *
 * Bytes in, bytes out; no clock in here but the one given.
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

/* One token fetches so much at most: what a handler streams for one call. */
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
	const char *holder; /* signed but not in the text; NULL or "": anybody's */
};

/* Seals many tokens: setting up a key costs five times what it costs to use it.
 * Belongs to one thread at a time. */
struct csi_token_sealer;

int csi_token_sealer_new(const struct csi_token_key *key, struct csi_token_sealer **ret,
			 struct cairn_err *err);
void csi_token_sealer_free(struct csi_token_sealer *sealer); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct csi_token_sealer, csi_token_sealer_free);

/* Writes the text, with a NUL; `out` has room for CSI_TOKEN_TEXT_MAX + 1.
 * Returns its length, or 0 when memory is short. */
size_t csi_token_seal(struct csi_token_sealer *sealer, const struct csi_data_token *token,
		      char *out);

/* Checks the text and says what it stands for; `holder` as it was sealed with. Every failure reads alike, but
 * for one that has merely expired; takes the same time wherever a MAC differs.
 *
 * CAIRN_UNAUTHENTICATED  none of ours, or its time is over or has not begun
 */
int csi_data_token_open(const struct csi_token_key *key, const char *text, const char *holder,
			uint64_t now_s, struct csi_data_token *ret, struct cairn_err *err);

/* The pool's key; made and kept when there is none. */
int csi_token_key_load(struct pool *pool, struct csi_token_key *ret, struct cairn_err *err);

#endif
