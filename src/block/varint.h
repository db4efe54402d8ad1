/* SPDX-License-Identifier: Apache-2.0 */

/* Unsigned LEB128 as in change sets: at most eight bytes, 56 bits, and only the shortest
 * form. The limit makes sums of a few values safe in 64 bits. */
#ifndef CAIRN_BLOCK_VARINT_H
#define CAIRN_BLOCK_VARINT_H

#include <stddef.h>
#include <stdint.h>

#define VARINT_BYTES_MAX 8U
#define VARINT_MAX       ((1ULL << 56) - 1)

/* Writes `value` (at most VARINT_MAX) and returns the byte after it. May always write up
 * to two bytes. There is no branch between one and two bytes: which comes next is almost
 * random, so the branch would often be mispredicted. */
static inline uint8_t *varint_put(uint8_t *p, uint64_t value)
{
	uint64_t two;

	while (value >= 1U << 14) {
		*p++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	two = value > 0x7f;
	p[0] = (uint8_t)(value | two << 7);
	p[1] = (uint8_t)(value >> 7);
	return p + 1 + two;
}

/* Reads one value; VARINT_BYTES_MAX bytes must be readable at `p`, whatever they contain.
 * Returns the byte after it, or NULL if it is too long or not the shortest form. */
const uint8_t *block_varint_get_long(const uint8_t *p, uint64_t *ret);

/* The same, inline for one and two bytes. */
static inline const uint8_t *varint_get(const uint8_t *p, uint64_t *ret)
{
	uint64_t more = p[0] >> 7;
	uint64_t high = p[1] & (0 - more);

	if (__builtin_expect((high & 0x80) != 0 || high < more, 0))
		return block_varint_get_long(p, ret);
	*ret = (p[0] & 0x7f) | high << 7;
	return p + 1 + more;
}

#endif
