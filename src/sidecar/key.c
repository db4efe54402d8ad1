/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/key.h"

#include <stdarg.h>
#include <string.h>

#include <openssl/sha.h>

/* The one-call functions of OpenSSL 3 allocate; this one can not fail. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void add(SHA256_CTX *ctx, const char *part)
{
	uint64_t n = strlen(part);

	SHA256_Update(ctx, &n, sizeof(n));
	SHA256_Update(ctx, part, n);
}

struct sidecar_key sidecar_key_of(const char *first, ...)
{
	struct sidecar_key key;
	SHA256_CTX ctx;
	va_list args;

	SHA256_Init(&ctx);
	va_start(args, first);
	for (const char *part = first; part; part = va_arg(args, const char *))
		add(&ctx, part);
	va_end(args);
	SHA256_Final(key.bytes, &ctx);
	return key;
}

struct sidecar_key sidecar_key_under(const struct sidecar_key *parent, const char *first, ...)
{
	struct sidecar_key key;
	SHA256_CTX ctx;
	va_list args;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, parent->bytes, SIDECAR_KEY_BYTES);
	va_start(args, first);
	for (const char *part = first; part; part = va_arg(args, const char *))
		add(&ctx, part);
	va_end(args);
	SHA256_Final(key.bytes, &ctx);
	return key;
}

#pragma GCC diagnostic pop

bool sidecar_key_equal(const struct sidecar_key *a, const struct sidecar_key *b)
{
	return memcmp(a->bytes, b->bytes, SIDECAR_KEY_BYTES) == 0;
}
