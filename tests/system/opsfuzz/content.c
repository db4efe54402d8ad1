/* SPDX-License-Identifier: Apache-2.0 */

#include "content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t sum_of(const void *sector)
{
	static const uint8_t zeros[SECTOR];
	uint64_t sum;

	if (memcmp(sector, zeros, SECTOR) == 0)
		return 0;
	sum = XXH3_64bits(sector, SECTOR);
	return sum ? sum : 1;
}

static void *must_have(void *memory)
{
	if (!memory) {
		fputs("opsfuzz: out of memory\n", stderr);
		exit(1);
	}
	return memory;
}

void content_init(struct content *content, uint64_t size)
{
	content->size = size;
	content->sums = must_have(calloc(size / SECTOR, sizeof(uint64_t)));
}

void content_done(struct content *content)
{
	free(content->sums);
	*content = (struct content){0};
}

void content_grow(struct content *content, uint64_t size)
{
	content->sums = must_have(reallocarray(content->sums, size / SECTOR, sizeof(uint64_t)));
	memset(content->sums + content->size / SECTOR, 0,
	       (size - content->size) / SECTOR * sizeof(uint64_t));
	content->size = size;
}

void content_copy(struct content *to, const struct content *from, uint64_t size)
{
	content_init(to, size);
	memcpy(to->sums, from->sums,
	       (size < from->size ? size : from->size) / SECTOR * sizeof(uint64_t));
}

void content_write(struct content *content, uint64_t offset, const void *data, size_t n)
{
	for (size_t i = 0; i < n / SECTOR; i++)
		content->sums[offset / SECTOR + i] = sum_of((const uint8_t *)data + i * SECTOR);
}

void content_zero(struct content *content, uint64_t offset, uint64_t n)
{
	memset(content->sums + offset / SECTOR, 0, n / SECTOR * sizeof(uint64_t));
}

void content_move(struct content *content, const struct content *from, uint64_t from_offset,
		  uint64_t offset, uint64_t n)
{
	memmove(content->sums + offset / SECTOR, from->sums + from_offset / SECTOR,
		n / SECTOR * sizeof(uint64_t));
}

uint64_t dice_next(struct dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

uint64_t dice_below(struct dice *dice, uint64_t n)
{
	return dice_next(dice) % n;
}

bool dice_one_in(struct dice *dice, uint64_t n)
{
	return dice_below(dice, n) == 0;
}

void dice_fill(struct dice *dice, void *out, size_t n)
{
	uint8_t *at = out;

	for (; n >= sizeof(uint64_t); at += sizeof(uint64_t), n -= sizeof(uint64_t)) {
		uint64_t value = dice_next(dice);

		memcpy(at, &value, sizeof(value));
	}
	for (; n > 0; n--)
		*at++ = (uint8_t)dice_next(dice);
}
