/* SPDX-License-Identifier: Apache-2.0 */

/* What caches and gates know things by: a SHA-256 over the parts of a name, so
 * that a token is never kept and no name of a peer's choosing can collide. */
#ifndef CAIRN_KUBE_DIGEST_H
#define CAIRN_KUBE_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#define KUBE_DIGEST_BYTES 32

struct kube_digest {
	uint8_t bytes[KUBE_DIGEST_BYTES];
};

/* Of texts, the last argument NULL; ("a", "bc") and ("ab", "c") differ. */
__attribute__((sentinel)) struct kube_digest kube_digest_of(const char *first, ...);

/* The same of a key and texts. */
__attribute__((sentinel)) struct kube_digest kube_digest_under(const struct kube_digest *parent,
							       const char *first, ...);

bool kube_digest_equal(const struct kube_digest *a, const struct kube_digest *b);

#endif
