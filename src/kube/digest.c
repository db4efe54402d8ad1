/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/digest.h"

#include <stdarg.h>
#include <string.h>

#include <openssl/sha.h>

/* The one-call functions of OpenSSL 3 allocate and may fail; this one cannot. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void digest_add(SHA256_CTX *ctx, const char *part)
{
	uint64_t n = strlen(part);

	SHA256_Update(ctx, &n, sizeof(n));
	SHA256_Update(ctx, part, n);
}

static void digest_add_all(SHA256_CTX *ctx, const char *first, va_list args)
{
	for (const char *part = first; part; part = va_arg(args, const char *))
		digest_add(ctx, part);
}

struct kube_digest kube_digest_of(const char *first, ...)
{
	struct kube_digest key;
	SHA256_CTX ctx;
	va_list args;

	SHA256_Init(&ctx);
	va_start(args, first);
	digest_add_all(&ctx, first, args);
	va_end(args);
	SHA256_Final(key.bytes, &ctx);
	return key;
}

struct kube_digest kube_digest_under(const struct kube_digest *parent, const char *first, ...)
{
	struct kube_digest key;
	SHA256_CTX ctx;
	va_list args;

	SHA256_Init(&ctx);
	SHA256_Update(&ctx, parent->bytes, KUBE_DIGEST_BYTES);
	va_start(args, first);
	digest_add_all(&ctx, first, args);
	va_end(args);
	SHA256_Final(key.bytes, &ctx);
	return key;
}

#pragma GCC diagnostic pop

bool kube_digest_equal(const struct kube_digest *a, const struct kube_digest *b)
{
	return memcmp(a->bytes, b->bytes, KUBE_DIGEST_BYTES) == 0;
}
