/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/sha256_pair.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

#define SHA_BLOCK  64U
#define SHA_LENGTH 8U /* of the bit count at the end */
#define WITH_SHA   __attribute__((target("sha,sse4.1,ssse3")))

/* FIPS 180-4, 4.2.2 */
static const uint32_t sha_k[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

/* The state in the order of the instructions: words a, b, e, f and c, d, g, h from high to low. */
struct sha_lane {
	__m128i abef, cdgh;
};

static bool sha_detect(void)
{
	unsigned a, b, c, d;
	const unsigned sse = bit_SSSE3 | bit_SSE4_1;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & sse) == sse &&
	       __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

/* Whether the processor has the instructions: asked once. */
static bool sha_available(void)
{
	static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
	int is = atomic_load_explicit(&known, memory_order_relaxed);

	if (is == 0) {
		is = sha_detect() ? 2 : 1;
		atomic_store_explicit(&known, is, memory_order_relaxed);
	}
	return is == 2;
}

WITH_SHA static inline void sha_load(const uint8_t *block, __m128i w[4])
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);

	for (int i = 0; i < 4; i++)
		w[i] = _mm_shuffle_epi8(
			_mm_loadu_si128((const __m128i *)(const void *)(block + 16 * i)), swap);
}

/* Four rounds, and the message words for those sixteen rounds later. */
WITH_SHA static inline void sha_four(struct sha_lane *lane, __m128i w[4], int group)
{
	const __m128i k = _mm_load_si128((const __m128i *)(const void *)&sha_k[4 * group]);
	__m128i m = _mm_add_epi32(w[group & 3], k), next;

	lane->cdgh = _mm_sha256rnds2_epu32(lane->cdgh, lane->abef, m);
	lane->abef = _mm_sha256rnds2_epu32(lane->abef, lane->cdgh, _mm_shuffle_epi32(m, 0x0e));
	if (group >= 12)
		return;
	next = _mm_sha256msg1_epu32(w[group & 3], w[(group + 1) & 3]);
	next = _mm_add_epi32(next, _mm_alignr_epi8(w[(group + 3) & 3], w[(group + 2) & 3], 4));
	w[group & 3] = _mm_sha256msg2_epu32(next, w[(group + 3) & 3]);
}

WITH_SHA static void sha_blocks(struct sha_lane lanes[2], const uint8_t *a, const uint8_t *b,
				size_t blocks)
{
	struct sha_lane x = lanes[0], y = lanes[1];

	for (; blocks > 0; blocks--, a += SHA_BLOCK, b += SHA_BLOCK) {
		struct sha_lane x_was = x, y_was = y;
		__m128i xw[4], yw[4];

		sha_load(a, xw);
		sha_load(b, yw);
#pragma GCC unroll 16
		for (int group = 0; group < 16; group++) {
			sha_four(&x, xw, group);
			sha_four(&y, yw, group);
		}
		x.abef = _mm_add_epi32(x.abef, x_was.abef);
		x.cdgh = _mm_add_epi32(x.cdgh, x_was.cdgh);
		y.abef = _mm_add_epi32(y.abef, y_was.abef);
		y.cdgh = _mm_add_epi32(y.cdgh, y_was.cdgh);
	}
	lanes[0] = x;
	lanes[1] = y;
}

/* The bytes after the last whole block, a one bit, and the length in bits. Returns blocks. */
static size_t sha_pad(const uint8_t *data, size_t n, uint8_t out[2 * SHA_BLOCK])
{
	size_t rest = n % SHA_BLOCK, blocks = rest + 1 + SHA_LENGTH > SHA_BLOCK ? 2 : 1;
	uint64_t bits = (uint64_t)n * 8;

	memset(out, 0, 2 * SHA_BLOCK);
	if (rest > 0)
		memcpy(out, data + n - rest, rest);
	out[rest] = 0x80;
	for (size_t i = 0; i < SHA_LENGTH; i++)
		out[blocks * SHA_BLOCK - 1 - i] = (uint8_t)(bits >> (8 * i));
	return blocks;
}

WITH_SHA static void sha_result(const struct sha_lane *lane, struct repo_id *ret)
{
	uint32_t abef[4], cdgh[4];

	_mm_storeu_si128((__m128i *)(void *)abef, lane->abef);
	_mm_storeu_si128((__m128i *)(void *)cdgh, lane->cdgh);
	const uint32_t words[8] = {abef[3], abef[2], cdgh[3], cdgh[2],
				   abef[1], abef[0], cdgh[1], cdgh[0]};

	for (size_t i = 0; i < REPO_ID_SIZE; i++)
		ret->bytes[i] = (uint8_t)(words[i / 4] >> (24 - 8 * (i % 4)));
}

WITH_SHA static void sha_pair(const void *const data[2], size_t n, struct repo_id ret[2])
{
	/* FIPS 180-4, 5.3.3 */
	const struct sha_lane first = {
		.abef = _mm_set_epi32(0x6a09e667, (int)0xbb67ae85, 0x510e527f, (int)0x9b05688c),
		.cdgh = _mm_set_epi32(0x3c6ef372, (int)0xa54ff53a, 0x1f83d9ab, 0x5be0cd19)};
	struct sha_lane lanes[2] = {first, first};
	uint8_t ends[2][2 * SHA_BLOCK];
	size_t blocks = 0;

	sha_blocks(lanes, data[0], data[1], n / SHA_BLOCK);
	for (int i = 0; i < 2; i++)
		blocks = sha_pad(data[i], n, ends[i]);
	sha_blocks(lanes, ends[0], ends[1], blocks);
	for (int i = 0; i < 2; i++)
		sha_result(&lanes[i], &ret[i]);
}

#endif

bool repo_id_of_pair(const void *const data[2], size_t n, struct repo_id ret[2])
{
#if defined(__x86_64__)
	if (sha_available()) {
		sha_pair(data, n, ret);
		return true;
	}
#endif
	return repo_id_of(data[0], n, &ret[0]) && repo_id_of(data[1], n, &ret[1]);
}
