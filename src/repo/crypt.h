/* SPDX-License-Identifier: Apache-2.0 */

/* The envelope around every blob and file:
 * IV (16) || AES-256-CTR of the bytes || Poly1305-AES over the ciphertext (16).
 *
 * A struct repo_crypt holds the contexts of one thread at a time.
 */
#ifndef CAIRN_REPO_CRYPT_H
#define CAIRN_REPO_CRYPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct repo_crypt;

#define REPO_IV_SIZE  16
#define REPO_MAC_SIZE 16
#define REPO_SEAL     (REPO_IV_SIZE + REPO_MAC_SIZE) /* what the envelope adds */

/* The MAC's r is stored unclamped; it is clamped on use. */
struct repo_key {
	uint8_t encrypt[32];
	uint8_t mac_k[16];
	uint8_t mac_r[16];
};

int repo_key_random(struct repo_key *ret, struct cairn_err *err);
void repo_key_clear(struct repo_key *key);

int repo_crypt_new(const struct repo_key *key, struct repo_crypt **ret, struct cairn_err *err);
void repo_crypt_free(struct repo_crypt *crypt);
CAIRN_DEFINE_CLEANUP(struct repo_crypt, repo_crypt_free);

/* Seals `n` bytes into `out`, which has room for n + REPO_SEAL; `plain` may be
 * out + REPO_IV_SIZE. */
int repo_crypt_seal(struct repo_crypt *crypt, const void *plain, size_t n, uint8_t *out,
		    struct cairn_err *err);

/* Opens in place: the plain bytes are then at sealed + REPO_IV_SIZE, and are
 * n - REPO_SEAL. Nothing is decrypted unless the MAC is right.
 *
 * CAIRN_DATA_LOSS  too short, or the MAC is wrong
 */
int repo_crypt_open(struct repo_crypt *crypt, uint8_t *sealed, size_t n, struct cairn_err *err);

/* The same, but the plain bytes go to `out`, and `sealed` is not modified. */
int repo_crypt_open_to(struct repo_crypt *crypt, const uint8_t *sealed, size_t n, uint8_t *out,
		       struct cairn_err *err);

#endif
