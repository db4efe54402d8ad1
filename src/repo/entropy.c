/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/entropy.h"

#define SAMPLE 1024U

/* The sum of the squares of how often each value is in the sample: 5116 is expected of
 * random bytes, with a standard deviation of 90; English text has 60 000, machine code
 * and numbers 10 000 and more. */
#define SQUARES_MAX 5700U

bool repo_looks_random(const uint8_t *data, size_t n)
{
	uint16_t counts[256] = {0};
	size_t step = n / SAMPLE;
	uint32_t squares = 0;

	if (n < SAMPLE)
		return false;
	/* The step is odd, so that the sample covers all columns of data in units of two,
	 * four or eight bytes. */
	if (step % 2 == 0)
		step--;
	/* Each square grows by 2 * count + 1, so the sum only grows: compressible data
	 * exceeds the limit after a part of the sample. */
	for (size_t i = 0; i < SAMPLE && squares <= SQUARES_MAX; i++)
		squares += 2U * counts[data[i * step]]++ + 1;
	return squares <= SQUARES_MAX;
}
