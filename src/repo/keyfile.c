/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/keyfile.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/random.h"
#include "repo/instant.h"
#include "repo/repo_json.h"

#define SEALED_MAX 4096

struct kdf {
	uint64_t n, r, p;
	uint8_t salt[REPO_SALT_SIZE];
};

static int keyfile_derive(const struct kdf *kdf, const void *password, size_t password_len,
			  struct repo_key *ret, struct cairn_err *err)
{
	uint8_t out[64];

	if (EVP_PBE_scrypt(password, password_len, kdf->salt, sizeof(kdf->salt), kdf->n, kdf->r,
			   kdf->p, REPO_SCRYPT_MEMORY_MAX * 2, out, sizeof(out)) != 1)
		return cairn_err_nomem(err, "a key from the password");
	memcpy(ret->encrypt, out, 32);
	memcpy(ret->mac_k, out + 32, 16);
	memcpy(ret->mac_r, out + 48, 16);
	OPENSSL_cleanse(out, sizeof(out));
	return 0;
}

/* Encodes the key as JSON and seals it with the key that is derived from the password. */
static int seal_key(const struct repo_key *key, const struct repo_key *by, uint8_t out[SEALED_MAX],
		    size_t *ret_n, struct cairn_err *err)
{
	cairn_cleanup(repo_crypt_freep) struct repo_crypt *crypt = NULL;
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(SEALED_MAX - REPO_SEAL);
	int rc = repo_crypt_new(by, &crypt, err);

	if (rc < 0)
		return rc;
	cairn_buf_adds(&json, "{\"mac\":{\"k\":\"");
	cairn_base64_add(&json, key->mac_k, sizeof(key->mac_k));
	cairn_buf_adds(&json, "\",\"r\":\"");
	cairn_base64_add(&json, key->mac_r, sizeof(key->mac_r));
	cairn_buf_adds(&json, "\"},\"encrypt\":\"");
	cairn_base64_add(&json, key->encrypt, sizeof(key->encrypt));
	cairn_buf_adds(&json, "\"}");
	if (cairn_buf_failed(&json))
		return cairn_err_nomem(err, "a key file");
	rc = repo_crypt_seal(crypt, json.data, json.len, out, err);
	*ret_n = json.len + REPO_SEAL;
	OPENSSL_cleanse(json.data, json.len);
	return rc;
}

static void write_json(struct cairn_buf *out, const struct repo_keyfile_owner *owner,
		       const struct kdf *kdf, const uint8_t *sealed, size_t n)
{
	char time[REPO_INSTANT_TEXT_MAX];

	cairn_buf_addf(out, "{\"created\":\"%s\",\"username\":",
		       repo_instant_format(owner->created_ns, time));
	repo_json_string(out, owner->username ? owner->username : "");
	cairn_buf_adds(out, ",\"hostname\":");
	repo_json_string(out, owner->hostname ? owner->hostname : "");
	cairn_buf_addf(out, ",\"kdf\":\"scrypt\",\"N\":%llu,\"r\":%llu,\"p\":%llu,\"salt\":\"",
		       (unsigned long long)kdf->n, (unsigned long long)kdf->r,
		       (unsigned long long)kdf->p);
	cairn_base64_add(out, kdf->salt, sizeof(kdf->salt));
	cairn_buf_adds(out, "\",\"data\":\"");
	cairn_base64_add(out, sealed, n);
	cairn_buf_adds(out, "\"}");
}

int repo_keyfile_encode(const struct repo_key *key, const void *password, size_t password_len,
			const struct repo_keyfile_owner *owner, struct cairn_buf *out,
			struct cairn_err *err)
{
	struct kdf kdf = {
		.n = owner->n ? owner->n : REPO_SCRYPT_N, .r = REPO_SCRYPT_R, .p = REPO_SCRYPT_P};
	uint8_t sealed[SEALED_MAX];
	struct repo_key by = {0};
	size_t n = 0;
	int rc = cairn_random_bytes(kdf.salt, sizeof(kdf.salt), err);

	if (rc == 0)
		rc = keyfile_derive(&kdf, password, password_len, &by, err);
	if (rc == 0)
		rc = seal_key(key, &by, sealed, &n, err);
	repo_key_clear(&by);
	if (rc < 0)
		return rc;
	write_json(out, owner, &kdf, sealed, n);
	return cairn_buf_failed(out) ? cairn_err_nomem(err, "a key file") : 0;
}

static int no_keyfile(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "not a key file");
}

static bool keyfile_positive(const json_t *value, uint64_t *ret)
{
	json_int_t number = json_integer_value(value);

	*ret = (uint64_t)number;
	return json_is_integer(value) && number > 0;
}

static int read_kdf(const json_t *root, struct kdf *ret, struct cairn_err *err)
{
	const char *name = json_string_value(json_object_get(root, "kdf"));
	const char *salt = json_string_value(json_object_get(root, "salt"));
	size_t n = 0;

	if (!name || !salt || strcmp(name, "scrypt") != 0 ||
	    !keyfile_positive(json_object_get(root, "N"), &ret->n) ||
	    !keyfile_positive(json_object_get(root, "r"), &ret->r) ||
	    !keyfile_positive(json_object_get(root, "p"), &ret->p) ||
	    !cairn_base64_decode_padded(salt, ret->salt, sizeof(ret->salt), &n) ||
	    n != REPO_SALT_SIZE)
		return no_keyfile(err);
	if (ret->n < 2 || (ret->n & (ret->n - 1)) != 0)
		return no_keyfile(err);
	if (ret->p > REPO_SCRYPT_P_MAX || ret->r > REPO_SCRYPT_MEMORY_MAX / 128 ||
	    ret->n > REPO_SCRYPT_MEMORY_MAX / 128 / ret->r)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "key file asks for too much memory or time");
	return 0;
}

/* Reads a field of the key, which must have exactly that many bytes. */
static bool keyfile_part(const json_t *object, const char *name, uint8_t *out, size_t want)
{
	const char *text = json_string_value(json_object_get(object, name));
	size_t n = 0;

	return text && cairn_base64_decode_padded(text, out, want, &n) && n == want;
}

static int keyfile_read_key(const uint8_t *plain, size_t n, struct repo_key *ret,
			    struct cairn_err *err)
{
	json_t *root = json_loadb((const char *)plain, n, 0, NULL);
	const json_t *mac = json_object_get(root, "mac");
	bool fine = keyfile_part(mac, "k", ret->mac_k, sizeof(ret->mac_k)) &&
		    keyfile_part(mac, "r", ret->mac_r, sizeof(ret->mac_r)) &&
		    keyfile_part(root, "encrypt", ret->encrypt, sizeof(ret->encrypt));

	json_decref(root);
	return fine ? 0 : cairn_err_set(err, CAIRN_DATA_LOSS, "key file holds no key");
}

static int open_key(const struct repo_key *by, uint8_t *sealed, size_t n, struct repo_key *ret,
		    struct cairn_err *err)
{
	cairn_cleanup(repo_crypt_freep) struct repo_crypt *crypt = NULL;
	int rc = repo_crypt_new(by, &crypt, err);

	if (rc == 0)
		rc = repo_crypt_open(crypt, sealed, n, err);
	if (rc == CAIRN_DATA_LOSS)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "wrong password");
	if (rc == 0)
		rc = keyfile_read_key(sealed + REPO_IV_SIZE, n - REPO_SEAL, ret, err);
	return rc;
}

int repo_keyfile_decode(const char *json, size_t n, const void *password, size_t password_len,
			struct repo_key *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_json_freep) json_t *root = json_loadb(json, n, 0, NULL);
	const char *data = json_string_value(json_object_get(root, "data"));
	struct repo_key by = {0}, key = {0};
	uint8_t sealed[SEALED_MAX];
	struct kdf kdf;
	size_t sealed_n;
	int rc;

	if (!data || !cairn_base64_decode_padded(data, sealed, sizeof(sealed), &sealed_n))
		return no_keyfile(err);
	rc = read_kdf(root, &kdf, err);
	if (rc == 0)
		rc = keyfile_derive(&kdf, password, password_len, &by, err);
	if (rc == 0)
		rc = open_key(&by, sealed, sealed_n, &key, err);
	if (rc == 0)
		*ret = key;
	repo_key_clear(&by);
	repo_key_clear(&key);
	OPENSSL_cleanse(sealed, sizeof(sealed));
	return rc;
}
