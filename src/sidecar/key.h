/* SPDX-License-Identifier: Apache-2.0 */

/* What caches and gates know things by: a SHA-256 over the parts of a name, so
 * that a token is never kept and no name of a peer's choosing can collide. */
#ifndef CAIRN_SIDECAR_KEY_H
#define CAIRN_SIDECAR_KEY_H

#include <stdbool.h>
#include <stdint.h>

#define SIDECAR_KEY_BYTES 32

struct sidecar_key {
	uint8_t bytes[SIDECAR_KEY_BYTES];
};

/* Of texts, the last argument NULL; ("a", "bc") and ("ab", "c") differ. */
__attribute__((sentinel)) struct sidecar_key sidecar_key_of(const char *first, ...);

/* The same of a key and texts. */
__attribute__((sentinel)) struct sidecar_key sidecar_key_under(const struct sidecar_key *parent,
							       const char *first, ...);

bool sidecar_key_equal(const struct sidecar_key *a, const struct sidecar_key *b);

#endif
