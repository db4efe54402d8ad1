/* SPDX-License-Identifier: Apache-2.0 */

/* The send queue of one stream.
 *
 * A queue of chunks. The writer reserves room at the end and fills it without a
 * lock; the reader may take committed bytes. Chunks grow from small to 64 KiB,
 * so a small call costs a small allocation and a stream of large messages few.
 * A queue may keep bytes that were read, so that a call can be retried from the
 * start.
 *
 * One writer and one reader; each function is called under the owner's lock;
 * only filling reserved room is not.
 */
#ifndef CAIRN_NET_OUTQ_H
#define CAIRN_NET_OUTQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_OUTQ_CHUNK_BYTES (64U << 10)
#define NET_OUTQ_KEEP_BYTES  (64U << 10) /* maximum kept for a retry; above it nothing is kept */

struct net_chunk {
	struct net_chunk *next;
	size_t cap, fill, taken;
	uint8_t data[];
};

struct net_outq {
	struct net_chunk *first; /* kept or unread */
	struct net_chunk *read;  /* where the reader is */
	struct net_chunk *last;
	struct net_chunk *spare;
	size_t bytes;    /* committed and not taken */
	size_t held;     /* memory of all chunks */
	size_t next_cap; /* size of the next chunk */
	size_t kept;     /* taken, but kept for a retry */
	bool keep;
	bool reserved;
};

void net_outq_done(struct net_outq *q);

/* Room for `n` bytes in one piece, or NULL when memory is short. */
uint8_t *net_outq_reserve(struct net_outq *q, size_t n);

/* Commits the first `n` bytes of the room. */
void net_outq_commit(struct net_outq *q, size_t n);

/* Copies `n` bytes, at most q->bytes, out. */
void net_outq_take(struct net_outq *q, uint8_t *out, size_t n);

/* Makes everything that was kept unread again. False when something was
 * already dropped. */
bool net_outq_rewind(struct net_outq *q);

/* Stops keeping. */
void net_outq_forget(struct net_outq *q);

/* Drops all bytes; a pending reservation stays valid until its commit. */
void net_outq_clear(struct net_outq *q);

#endif
