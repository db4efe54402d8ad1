/* SPDX-License-Identifier: Apache-2.0 */

/* What a volume or snapshot holds, as the test knows it: a hash per sector,
 * 0 where the sector is zero. Kept from what was written, not from what the
 * pool says. */
#ifndef CAIRN_TESTS_OPSFUZZ_CONTENT_H
#define CAIRN_TESTS_OPSFUZZ_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SECTOR 512U
#define BLOCK  4096U

struct content {
	uint64_t size;
	uint64_t *sums; /* NULL: forgotten */
};

/* All end the program when memory is short. */
void content_init(struct content *content, uint64_t size);
void content_done(struct content *content);
void content_grow(struct content *content, uint64_t size);
void content_copy(struct content *to, const struct content *from, uint64_t size);

/* `offset` and `n` are whole sectors. */
void content_write(struct content *content, uint64_t offset, const void *data, size_t n);
void content_zero(struct content *content, uint64_t offset, uint64_t n);
void content_move(struct content *content, const struct content *from, uint64_t from_offset,
		  uint64_t offset, uint64_t n);

/* A random generator with its state in one place: the same seed, the same run. */
struct dice {
	uint64_t state;
};

uint64_t dice_next(struct dice *dice);
uint64_t dice_below(struct dice *dice, uint64_t n); /* 0 .. n - 1; n > 0 */
bool dice_one_in(struct dice *dice, uint64_t n);
void dice_fill(struct dice *dice, void *out, size_t n);

#endif
