/* SPDX-License-Identifier: Apache-2.0 */

#include "block/checksum.h"

/* Inlined here only, so that no library must be loaded at the start. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t block_checksum(const void *data, size_t n)
{
	return XXH3_64bits(data, n);
}
