/* SPDX-License-Identifier: Apache-2.0 */

#include "hpack.h"

#include <string.h>

#define VALUE_BYTES 3000U

size_t hpack_large_fields(uint8_t *at, bool define, unsigned times)
{
	size_t n = 0;

	if (define) {
		at[n++] = 0x40; /* literal, to be indexed */
		at[n++] = 6;
		memcpy(at + n, "x-much", 6);
		n += 6;
		at[n++] = 0x7f; /* the length of the value */
		at[n++] = (uint8_t)((VALUE_BYTES - 127) & 127) | 0x80;
		at[n++] = (VALUE_BYTES - 127) >> 7;
		memset(at + n, 'm', VALUE_BYTES);
		n += VALUE_BYTES;
	}
	memset(at + n, 0x80 | 62, times);
	return n + times;
}
