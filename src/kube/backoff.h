/* SPDX-License-Identifier: Apache-2.0 */

/* Growing pauses between tries. */
#ifndef CAIRN_KUBE_BACKOFF_H
#define CAIRN_KUBE_BACKOFF_H

#include <stdint.h>

struct kube_backoff {
	uint64_t first_ms;
	uint64_t most_ms;
	unsigned failures;
};

/* The next pause: twice the last one, up to the most, and between half of that
 * and all of it by chance, so that many who failed together do not come back
 * together. */
uint64_t kube_backoff_next(struct kube_backoff *backoff);

/* It went well: the next pause is the first again. */
void kube_backoff_reset(struct kube_backoff *backoff);

#endif
