/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes that a socket did not accept.
 *
 * They may be a whole batch of frames, and a fast stream has them again and again. A buffer
 * of that size is mapped and unmapped by the allocator each time, and its page faults cost
 * more than the copy; so each loop keeps one large buffer for the next connection that needs
 * one.
 *
 * Belongs to one loop's thread.
 */
#ifndef CAIRN_NET_UNSENT_H
#define CAIRN_NET_UNSENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_UNSENT_SPARE_BYTES (64U << 10) /* smaller buffers are not kept for reuse */

/* The loop's free buffer. */
struct net_unsent_spare {
	uint8_t *data;
	size_t cap;
};

struct net_unsent {
	uint8_t *data; /* NULL if nothing is unsent */
	size_t cap, len, at;
};

/* Appends `n` bytes. False when memory is short; nothing has changed then. */
bool net_unsent_add(struct net_unsent *unsent, struct net_unsent_spare *spare, const uint8_t *data,
		    size_t n);

/* Removes the first `n` bytes. */
void net_unsent_drop(struct net_unsent *unsent, struct net_unsent_spare *spare, size_t n);

/* Removes everything. */
void net_unsent_clear(struct net_unsent *unsent, struct net_unsent_spare *spare);

void net_unsent_spare_done(struct net_unsent_spare *spare);

static inline size_t net_unsent_len(const struct net_unsent *unsent)
{
	return unsent->len - unsent->at;
}

#endif
