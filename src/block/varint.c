/* SPDX-License-Identifier: Apache-2.0 */

#include "block/varint.h"

const uint8_t *block_varint_get_long(const uint8_t *p, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < VARINT_BYTES_MAX; i++) {
		value |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (p[i] & 0x80)
			continue;
		if (i > 0 && p[i] == 0)
			return NULL;
		*ret = value;
		return p + i + 1;
	}
	return NULL;
}
