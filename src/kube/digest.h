/* SPDX-License-Identifier: Apache-2.0 */

/* Key of caches and queues: a SHA-256 over the parts of a name. A cache therefore never
 * stores a token, and a peer cannot choose names that collide. */
#ifndef CAIRN_KUBE_DIGEST_H
#define CAIRN_KUBE_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#define KUBE_DIGEST_BYTES 32

struct kube_digest {
	uint8_t bytes[KUBE_DIGEST_BYTES];
};

/* Hashes the strings up to NULL; ("a", "bc") and ("ab", "c") differ. */
__attribute__((sentinel)) struct kube_digest kube_digest_of(const char *first, ...);

/* The same for a key followed by strings. */
__attribute__((sentinel)) struct kube_digest kube_digest_under(const struct kube_digest *parent,
							       const char *first, ...);

bool kube_digest_equal(const struct kube_digest *a, const struct kube_digest *b);

#endif
