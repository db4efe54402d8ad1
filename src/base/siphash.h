/* SPDX-License-Identifier: Apache-2.0 */

/* SipHash-2-4, a keyed hash. A peer that does not know the key cannot choose names that
 * fall into the same bucket of a table. */
#ifndef CAIRN_BASE_SIPHASH_H
#define CAIRN_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct cairn_siphash_key {
	uint64_t k0, k1; /* from cairn_random_bytes() */
};

uint64_t cairn_siphash(const struct cairn_siphash_key *key, const void *data, size_t n);

#endif
