/* SPDX-License-Identifier: Apache-2.0 */

#include "net/outq.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_CHUNK_BYTES 512

static void free_chunk(struct net_outq *q, struct net_chunk *chunk)
{
	q->held -= chunk->cap;
	free(chunk);
}

void net_outq_done(struct net_outq *q)
{
	struct net_chunk *chunk = q->first;

	while (chunk) {
		struct net_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
	free(q->spare);
	*q = (struct net_outq){0};
}

static struct net_chunk *new_chunk(struct net_outq *q, size_t n)
{
	struct net_chunk *chunk = q->spare;
	size_t cap;

	if (chunk && chunk->cap >= n) {
		q->spare = NULL;
		return chunk;
	}
	cap = q->next_cap ? q->next_cap : FIRST_CHUNK_BYTES;
	if (cap < n)
		cap = n;
	chunk = cairn_alloc(sizeof(*chunk) + cap);
	if (!chunk)
		return NULL;
	*chunk = (struct net_chunk){.cap = cap};
	q->held += cap;
	q->next_cap = cap * 4 > NET_OUTQ_CHUNK_BYTES ? NET_OUTQ_CHUNK_BYTES : cap * 4;
	return chunk;
}

/* Frees a chunk that was read to its end, unless the writer still fills it. */
static void drop_read(struct net_outq *q)
{
	while (q->first && q->first != q->read) {
		struct net_chunk *chunk = q->first;

		q->first = chunk->next;
		if (!q->spare && chunk->cap == NET_OUTQ_CHUNK_BYTES) {
			chunk->fill = chunk->taken = 0;
			chunk->next = NULL;
			q->spare = chunk;
		} else {
			free_chunk(q, chunk);
		}
	}
}

uint8_t *net_outq_reserve(struct net_outq *q, size_t n)
{
	struct net_chunk *chunk = q->last;

	if (chunk && chunk->taken == chunk->fill && !q->keep)
		chunk->taken = chunk->fill = 0;
	if (!chunk || chunk->cap - chunk->fill < n) {
		chunk = new_chunk(q, n);
		if (!chunk)
			return NULL;
		if (q->last)
			q->last->next = chunk;
		else
			q->first = q->read = chunk;
		q->last = chunk;
	}
	q->reserved = true;
	return chunk->data + chunk->fill;
}

void net_outq_commit(struct net_outq *q, size_t n)
{
	q->last->fill += n;
	q->bytes += n;
	q->reserved = false;
}

void net_outq_take(struct net_outq *q, uint8_t *out, size_t n)
{
	q->bytes -= n;
	if (q->keep)
		q->kept += n;
	while (n > 0) {
		struct net_chunk *chunk = q->read;
		size_t part = chunk->fill - chunk->taken;

		if (part > n)
			part = n;
		memcpy(out, chunk->data + chunk->taken, part);
		chunk->taken += part;
		out += part;
		n -= part;
		if (chunk->taken == chunk->fill && chunk->next)
			q->read = chunk->next;
	}
	if (q->keep && q->kept > NET_OUTQ_KEEP_BYTES)
		q->keep = false;
	if (!q->keep)
		drop_read(q);
}

bool net_outq_rewind(struct net_outq *q)
{
	if (!q->keep)
		return false;
	for (struct net_chunk *chunk = q->first; chunk; chunk = chunk->next) {
		q->bytes += chunk->taken;
		chunk->taken = 0;
	}
	q->kept = 0;
	q->read = q->first;
	return true;
}

void net_outq_forget(struct net_outq *q)
{
	q->keep = false;
	if (q->first)
		drop_read(q);
}

void net_outq_clear(struct net_outq *q)
{
	for (struct net_chunk *chunk = q->first; chunk; chunk = chunk->next)
		chunk->taken = chunk->fill;
	q->bytes = 0;
	q->keep = false;
	q->read = q->last;
	if (q->first)
		drop_read(q);
}
