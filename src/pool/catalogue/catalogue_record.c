/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_ops.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void pool_catalogue_checksum(struct catalogue_bytes key, struct catalogue_bytes value,
			     uint8_t ret[CATALOGUE_SUM_LEN])
{
	XXH3_state_t state;
	uint64_t hash;

	XXH3_INITSTATE(&state);
	XXH3_64bits_reset_withSeed(&state, key.len);
	XXH3_64bits_update(&state, key.data, key.len);
	XXH3_64bits_update(&state, value.data, value.len);
	hash = XXH3_64bits_digest(&state);
	for (unsigned i = 0; i < CATALOGUE_SUM_LEN; i++)
		ret[i] = (uint8_t)(hash >> (8 * i));
}

bool pool_catalogue_unwrap(struct catalogue_bytes key, struct catalogue_bytes stored,
			   struct catalogue_bytes *ret)
{
	uint8_t sum[CATALOGUE_SUM_LEN];

	if (!stored.data || stored.len < sizeof(sum) ||
	    stored.len - sizeof(sum) > CATALOGUE_VALUE_MAX)
		return false;
	ret->data = (const uint8_t *)stored.data + sizeof(sum);
	ret->len = stored.len - sizeof(sum);
	pool_catalogue_checksum(key, *ret, sum);
	return memcmp(sum, stored.data, sizeof(sum)) == 0;
}
