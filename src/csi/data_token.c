/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/data_token.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "pool/catalogue/front_end_note.h"

#define VERSION  1
#define HEAD     30U /* up to the id */
#define NOTE_KEY "csi/data-token-key"

/* Tolerated clock difference of two nodes that share a pool. */
#define CLOCK_SKEW_S 300U

struct csi_token_sealer {
	EVP_MAC_CTX *context;
};

static bool set_key(struct csi_token_sealer *sealer, const struct csi_token_key *key)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

	sealer->context = mac ? EVP_MAC_CTX_new(mac) : NULL;
	EVP_MAC_free(mac);
	return sealer->context &&
	       EVP_MAC_init(sealer->context, key->bytes, sizeof(key->bytes), params) == 1;
}

int csi_token_sealer_new(const struct csi_token_key *key, struct csi_token_sealer **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(csi_token_sealer_freep) struct csi_token_sealer *sealer =
		cairn_calloc(1, sizeof(*sealer));

	if (!sealer || !set_key(sealer, key))
		return cairn_err_nomem(err, "data token");
	*ret = cairn_take(sealer);
	return 0;
}

void csi_token_sealer_free(struct csi_token_sealer *sealer)
{
	if (!sealer)
		return;
	EVP_MAC_CTX_free(sealer->context);
	free(sealer);
}

/* The data contains its own length, so that no bytes can be moved from it to the holder. */
static bool data_token_sign(struct csi_token_sealer *sealer, const uint8_t *data, size_t n,
			    const char *holder, uint8_t out[CSI_TOKEN_MAC_BYTES])
{
	size_t holder_len = holder ? strlen(holder) : 0;
	size_t len;

	/* Without a key argument, the context restarts with its current key. */
	return EVP_MAC_init(sealer->context, NULL, 0, NULL) == 1 &&
	       EVP_MAC_update(sealer->context, data, n) == 1 &&
	       (holder_len == 0 ||
		EVP_MAC_update(sealer->context, (const uint8_t *)holder, holder_len) == 1) &&
	       EVP_MAC_final(sealer->context, out, &len, CSI_TOKEN_MAC_BYTES) == 1;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static const uint8_t *get_u64(const uint8_t *at, uint64_t *ret)
{
	memcpy(ret, at, sizeof(*ret));
	*ret = be64toh(*ret);
	return at + sizeof(*ret);
}

/* Standard base64 and base64url differ in two digits. */
static void swap_digits(char *text, size_t n, const char from[2], const char to[2])
{
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < 2; k++)
			if (text[i] == from[k]) {
				text[i] = to[k];
				break;
			}
}

static size_t to_text(const uint8_t *data, size_t n, char *out)
{
	size_t len = cairn_base64_encode(data, n, out);

	swap_digits(out, len, "+/", "-_");
	out[len] = '\0';
	return len;
}

size_t csi_token_seal(struct csi_token_sealer *sealer, const struct csi_data_token *token,
		      char *out)
{
	uint8_t bytes[CSI_TOKEN_BYTES_MAX];
	size_t id_len = strnlen(token->snapshot, POOL_ID_MAX);
	uint32_t ttl = htobe32(token->ttl_s);
	uint8_t *at = bytes;

	*at++ = VERSION;
	at = put_u64(at, token->issued_s);
	memcpy(at, &ttl, sizeof(ttl));
	at = put_u64(at + sizeof(ttl), token->offset);
	at = put_u64(at, token->length);
	*at++ = (uint8_t)id_len;
	memcpy(at, token->snapshot, id_len);
	at += id_len;
	if (!data_token_sign(sealer, bytes, (size_t)(at - bytes), token->holder, at))
		return 0;
	return to_text(bytes, (size_t)(at - bytes) + CSI_TOKEN_MAC_BYTES, out);
}

/* Decodes a text, and rejects all but its canonical form: base64 ignores the last bits of some
 * texts, so that a changed token could still be valid. */
static bool from_text(const char *text, uint8_t *out, size_t *ret_n)
{
	char copy[CSI_TOKEN_TEXT_MAX + 1];
	char again[CSI_TOKEN_TEXT_MAX + 4];
	size_t len = strnlen(text, CSI_TOKEN_TEXT_MAX + 1);

	if (len > CSI_TOKEN_TEXT_MAX || strpbrk(text, "+/="))
		return false;
	memcpy(copy, text, len + 1);
	swap_digits(copy, len, "-_", "+/");
	if (!cairn_base64_decode(copy, len, out, ret_n) || *ret_n > CSI_TOKEN_BYTES_MAX)
		return false;
	return to_text(out, *ret_n, again) == len && memcmp(again, text, len) == 0;
}

static bool data_token_parse(const uint8_t *bytes, size_t n, struct csi_data_token *ret)
{
	const uint8_t *at = bytes + 1;
	size_t id_len;

	if (n < HEAD + CSI_TOKEN_MAC_BYTES || bytes[0] != VERSION)
		return false;
	id_len = bytes[HEAD - 1];
	if (id_len == 0 || id_len > POOL_ID_MAX || n != HEAD + id_len + CSI_TOKEN_MAC_BYTES)
		return false;
	at = get_u64(at, &ret->issued_s);
	memcpy(&ret->ttl_s, at, sizeof(ret->ttl_s));
	ret->ttl_s = be32toh(ret->ttl_s);
	at = get_u64(at + sizeof(ret->ttl_s), &ret->offset);
	at = get_u64(at, &ret->length);
	memcpy(ret->snapshot, at + 1, id_len);
	ret->snapshot[id_len] = '\0';
	return strlen(ret->snapshot) == id_len;
}

static int check_time(const struct csi_data_token *token, uint64_t now_s, struct cairn_err *err)
{
	uint64_t end;

	if (__builtin_add_overflow(token->issued_s, (uint64_t)token->ttl_s, &end) || now_s >= end)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the data token has expired");
	if (token->issued_s > now_s + CLOCK_SKEW_S)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the data token is not valid");
	return 0;
}

int csi_data_token_open(const struct csi_token_key *key, const char *text, const char *holder,
			uint64_t now_s, struct csi_data_token *ret, struct cairn_err *err)
{
	uint8_t bytes[CSI_TOKEN_TEXT_MAX];
	uint8_t mac[CSI_TOKEN_MAC_BYTES];
	cairn_cleanup(csi_token_sealer_freep) struct csi_token_sealer *sealer = NULL;
	struct csi_data_token token = {0};
	size_t n = 0;
	int rc = csi_token_sealer_new(key, &sealer, err);

	if (rc)
		return rc;
	if (!from_text(text, bytes, &n) || !data_token_parse(bytes, n, &token) ||
	    !data_token_sign(sealer, bytes, n - CSI_TOKEN_MAC_BYTES, holder, mac) ||
	    /* In constant time: how many bytes agree must not be measurable. */
	    CRYPTO_memcmp(mac, bytes + n - CSI_TOKEN_MAC_BYTES, sizeof(mac)) != 0)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the data token is not valid");
	rc = check_time(&token, now_s, err);
	if (!rc)
		*ret = token;
	return rc;
}

static int data_token_read_key(struct pool *pool, struct csi_token_key *ret, struct cairn_err *err)
{
	cairn_auto_free char *data = NULL;
	size_t n;
	int rc = pool_note_get(pool, NOTE_KEY, &data, &n, err);

	if (rc)
		return rc;
	if (n != sizeof(ret->bytes))
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "the pool's key for data tokens is damaged");
	memcpy(ret->bytes, data, n);
	OPENSSL_cleanse(data, n);
	return 0;
}

int csi_token_key_load(struct pool *pool, struct csi_token_key *ret, struct cairn_err *err)
{
	struct pool_note none = {.data = NULL};
	struct csi_token_key key;
	struct pool_note made = {.data = key.bytes, .len = sizeof(key.bytes)};
	int rc = data_token_read_key(pool, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = cairn_random_bytes(key.bytes, sizeof(key.bytes), err);
	if (!rc)
		rc = pool_note_change(pool, NOTE_KEY, none, made, err);
	if (rc == CAIRN_ABORTED) /* another driver stored its key first */
		return data_token_read_key(pool, ret, err);
	if (!rc)
		*ret = key;
	return rc;
}
