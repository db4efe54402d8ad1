/* SPDX-License-Identifier: Apache-2.0 */

/* Key files: the repository's key, sealed with a password. Bytes in, bytes out.
 *
 * {"created","username","hostname","kdf":"scrypt","N","r","p","salt","data"};
 * `data` is the sealed JSON of the key itself.
 */
#ifndef CAIRN_REPO_KEYFILE_H
#define CAIRN_REPO_KEYFILE_H

#include <stddef.h>
#include <stdint.h>

#include "repo/crypt.h"

struct cairn_err;
struct cairn_buf;

#define REPO_KEYFILE_MAX 65536
#define REPO_SALT_SIZE   64

/* Limits of the work factors in a key file: a hostile one must not take all
 * memory or run for hours. */
#define REPO_SCRYPT_MEMORY_MAX ((uint64_t)1 << 30)
#define REPO_SCRYPT_P_MAX      64

/* Cost of a new key: 32 MiB and a tenth of a second; docs/decisions/082. */
#define REPO_SCRYPT_N 32768
#define REPO_SCRYPT_R 8
#define REPO_SCRYPT_P 1

struct repo_keyfile_owner {
	const char *hostname;
	const char *username;
	int64_t created_ns;
	uint64_t n; /* scrypt's; 0: REPO_SCRYPT_N */
};

/* Appends the JSON of a new key file. */
int repo_keyfile_encode(const struct repo_key *key, const void *password, size_t password_len,
			const struct repo_keyfile_owner *owner, struct cairn_buf *out,
			struct cairn_err *err);

/* CAIRN_UNAUTHENTICATED  the password does not open this key
 * CAIRN_DATA_LOSS        not a key file
 * CAIRN_UNIMPLEMENTED    it exceeds the limits above
 */
int repo_keyfile_decode(const char *json, size_t n, const void *password, size_t password_len,
			struct repo_key *ret, struct cairn_err *err);

#endif
