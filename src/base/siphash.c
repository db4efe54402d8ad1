/* SPDX-License-Identifier: Apache-2.0 */

#include "base/siphash.h"

#define FINAL_ROUNDS 4

struct state {
	uint64_t v0, v1, v2, v3;
};

static uint64_t siphash_rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static void mix_round(struct state *s)
{
	s->v0 += s->v1;
	s->v1 = siphash_rotate(s->v1, 13) ^ s->v0;
	s->v0 = siphash_rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = siphash_rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = siphash_rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = siphash_rotate(s->v1, 17) ^ s->v2;
	s->v2 = siphash_rotate(s->v2, 32);
}

static void mix_word(struct state *s, uint64_t word)
{
	s->v3 ^= word;
	mix_round(s);
	mix_round(s);
	s->v0 ^= word;
}

static uint64_t load_word(const uint8_t *at, size_t n)
{
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)at[i] << (8 * i);
	return word;
}

uint64_t cairn_siphash(const struct cairn_siphash_key *key, const void *data, size_t n)
{
	struct state s = {.v0 = key->k0 ^ 0x736f6d6570736575ULL,
			  .v1 = key->k1 ^ 0x646f72616e646f6dULL,
			  .v2 = key->k0 ^ 0x6c7967656e657261ULL,
			  .v3 = key->k1 ^ 0x7465646279746573ULL};
	const uint8_t *at = data;
	size_t left = n;

	for (; left >= 8; at += 8, left -= 8)
		mix_word(&s, load_word(at, 8));
	mix_word(&s, load_word(at, left) | (uint64_t)(n & 0xff) << 56);
	s.v2 ^= 0xff;
	for (int i = 0; i < FINAL_ROUNDS; i++)
		mix_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
