/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/key.h"

#include <stdarg.h>
#include <string.h>

#include <openssl/sha.h>

/* The one-call functions of OpenSSL 3 allocate; this one can not fail. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static struct sidecar_key hash(const struct sidecar_key *parent, const char *part, va_list *args)
{
	struct sidecar_key key;
	SHA256_CTX ctx;

	SHA256_Init(&ctx);
	if (parent)
		SHA256_Update(&ctx, parent->bytes, SIDECAR_KEY_BYTES);
	while (part) {
		uint64_t n = strlen(part);

		SHA256_Update(&ctx, &n, sizeof(n));
		SHA256_Update(&ctx, part, n);
		part = va_arg(*args, const char *);
	}
	SHA256_Final(key.bytes, &ctx);
	return key;
}

#pragma GCC diagnostic pop

struct sidecar_key sidecar_key_of(const char *first, ...)
{
	struct sidecar_key key;
	va_list args;

	va_start(args, first);
	key = hash(NULL, first, &args);
	va_end(args);
	return key;
}

struct sidecar_key sidecar_key_under(const struct sidecar_key *parent, const char *first, ...)
{
	struct sidecar_key key;
	va_list args;

	va_start(args, first);
	key = hash(parent, first, &args);
	va_end(args);
	return key;
}

bool sidecar_key_equal(const struct sidecar_key *a, const struct sidecar_key *b)
{
	return memcmp(a->bytes, b->bytes, SIDECAR_KEY_BYTES) == 0;
}
