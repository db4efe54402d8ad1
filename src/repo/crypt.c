/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/crypt.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "repo/repo_digest.h"

struct repo_crypt {
	EVP_CIPHER_CTX *ctr;
	EVP_CIPHER_CTX *ecb;
	EVP_MAC_CTX *mac;
	uint8_t mac_r[16];
};

int repo_key_random(struct repo_key *ret, struct cairn_err *err)
{
	return cairn_random_bytes(ret, sizeof(*ret), err);
}

void repo_key_clear(struct repo_key *key)
{
	OPENSSL_cleanse(key, sizeof(*key));
}

void repo_crypt_free(struct repo_crypt *crypt)
{
	if (!crypt)
		return;
	EVP_CIPHER_CTX_free(crypt->ctr);
	EVP_CIPHER_CTX_free(crypt->ecb);
	EVP_MAC_CTX_free(crypt->mac);
	OPENSSL_cleanse(crypt, sizeof(*crypt));
	free(crypt);
}

int repo_crypt_new(const struct repo_key *key, struct repo_crypt **ret, struct cairn_err *err)
{
	cairn_cleanup(repo_crypt_freep) struct repo_crypt *crypt = cairn_calloc(1, sizeof(*crypt));
	EVP_MAC *poly1305 = repo_poly1305();

	if (!crypt || !poly1305)
		return cairn_err_nomem(err, "a key's context");
	memcpy(crypt->mac_r, key->mac_r, sizeof(crypt->mac_r));
	crypt->ctr = EVP_CIPHER_CTX_new();
	crypt->ecb = EVP_CIPHER_CTX_new();
	crypt->mac = EVP_MAC_CTX_new(poly1305);
	if (!crypt->ctr || !crypt->ecb || !crypt->mac ||
	    EVP_EncryptInit_ex(crypt->ctr, EVP_aes_256_ctr(), NULL, key->encrypt, NULL) != 1 ||
	    EVP_EncryptInit_ex(crypt->ecb, EVP_aes_128_ecb(), NULL, key->mac_k, NULL) != 1 ||
	    EVP_CIPHER_CTX_set_padding(crypt->ecb, 0) != 1)
		return cairn_err_nomem(err, "a key's context");
	*ret = cairn_take(crypt);
	return 0;
}

/* Poly1305 whose one-time key is r || AES-128(k, IV). */
static int mac_of(struct repo_crypt *crypt, const uint8_t *iv, const uint8_t *data, size_t n,
		  uint8_t out[REPO_MAC_SIZE], struct cairn_err *err)
{
	uint8_t once[32];
	size_t got = 0;
	int len = 0;

	memcpy(once, crypt->mac_r, 16);
	if (EVP_EncryptUpdate(crypt->ecb, once + 16, &len, iv, REPO_IV_SIZE) != 1 || len != 16 ||
	    EVP_MAC_init(crypt->mac, once, sizeof(once), NULL) != 1 ||
	    EVP_MAC_update(crypt->mac, data, n) != 1 ||
	    EVP_MAC_final(crypt->mac, out, &got, REPO_MAC_SIZE) != 1 || got != REPO_MAC_SIZE)
		return cairn_err_set(err, CAIRN_INTERNAL, "authentication code failed");
	return 0;
}

/* Counter mode: the same both ways. OpenSSL counts bytes in an int. */
static int crypt_apply(struct repo_crypt *crypt, const uint8_t *iv, const uint8_t *in, uint8_t *out,
		       size_t n, struct cairn_err *err)
{
	const size_t step = (size_t)1 << 30;

	if (EVP_EncryptInit_ex(crypt->ctr, NULL, NULL, NULL, iv) != 1)
		return cairn_err_set(err, CAIRN_INTERNAL, "encryption failed");
	for (size_t done = 0; done < n;) {
		size_t part = n - done < step ? n - done : step;
		int len = 0;

		if (EVP_EncryptUpdate(crypt->ctr, out + done, &len, in + done, (int)part) != 1 ||
		    (size_t)len != part)
			return cairn_err_set(err, CAIRN_INTERNAL, "encryption failed");
		done += part;
	}
	return 0;
}

int repo_crypt_seal(struct repo_crypt *crypt, const void *plain, size_t n, uint8_t *out,
		    struct cairn_err *err)
{
	int rc = cairn_random_bytes(out, REPO_IV_SIZE, err);

	if (rc == 0)
		rc = crypt_apply(crypt, out, plain, out + REPO_IV_SIZE, n, err);
	if (rc == 0)
		rc = mac_of(crypt, out, out + REPO_IV_SIZE, n, out + REPO_IV_SIZE + n, err);
	return rc;
}

int repo_crypt_open_to(struct repo_crypt *crypt, const uint8_t *sealed, size_t n, uint8_t *out,
		       struct cairn_err *err)
{
	uint8_t mac[REPO_MAC_SIZE];
	const uint8_t *body = sealed + REPO_IV_SIZE;
	size_t body_n = n - REPO_SEAL;
	int rc;

	if (n < REPO_SEAL)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "too short to be encrypted");
	rc = mac_of(crypt, sealed, body, body_n, mac, err);
	if (rc < 0)
		return rc;
	if (CRYPTO_memcmp(mac, body + body_n, REPO_MAC_SIZE) != 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "authentication code is wrong");
	return crypt_apply(crypt, sealed, body, out, body_n, err);
}

int repo_crypt_open(struct repo_crypt *crypt, uint8_t *sealed, size_t n, struct cairn_err *err)
{
	return repo_crypt_open_to(crypt, sealed, n, sealed + REPO_IV_SIZE, err);
}
