/* SPDX-License-Identifier: Apache-2.0 */

/* Numbers that look random (SplitMix64), so that a failing seed can be run again. */
#ifndef CAIRN_TESTS_UNIT_RNG_H
#define CAIRN_TESTS_UNIT_RNG_H

#include <stdint.h>

static inline uint64_t rng_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

#endif
