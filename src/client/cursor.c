/* SPDX-License-Identifier: Apache-2.0 */

#include "client/cursor.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/extent.h"

#define BATCH_FIRST 1024

void client_cursor_init(struct client_cursor *cursor, uint64_t starting_offset,
			uint32_t max_results)
{
	*cursor = (struct client_cursor){.at = starting_offset, .max_results = max_results};
}

void client_cursor_done(struct client_cursor *cursor)
{
	free(cursor->batch);
	*cursor = (struct client_cursor){0};
}

void client_cursor_stream(struct client_cursor *cursor)
{
	cursor->scan = (struct proto_block_scan){
		.starting_offset = cursor->at,
		.max_results = cursor->max_results,
	};
	cursor->streams++;
}

static int cursor_grow(struct client_cursor *cursor, struct cairn_err *err)
{
	size_t cap = cursor->cap ? cursor->cap * 2 : BATCH_FIRST;
	struct cairn_block *larger = cairn_realloc_array(cursor->batch, cap, sizeof(*larger));

	if (!larger)
		return cairn_err_nomem(err, "blocks of a message");
	cursor->batch = larger;
	cursor->cap = cap;
	return 0;
}

static int cursor_keep(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct client_cursor *cursor = arg;

	if (cursor->taken == cursor->cap) {
		int rc = cursor_grow(cursor, err);

		if (rc)
			return rc;
	}
	cursor->batch[cursor->taken++] =
		(struct cairn_block){.offset = extent->offset, .length = extent->length};
	return 0;
}

/* Checks that the message describes the same volume as the first one. */
static int same_volume(const struct client_cursor *cursor, struct cairn_err *err)
{
	const struct proto_block_scan *scan = &cursor->scan;

	if (!cursor->begun)
		return 0;
	if (scan->type != cursor->type)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the block metadata type changed between streams");
	if (scan->capacity != cursor->capacity)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the volume capacity changed between streams, from %" PRIu64
				     " to %" PRIu64,
				     cursor->capacity, scan->capacity);
	if (scan->type == PROTO_BLOCK_FIXED && scan->tuples > 0 && cursor->blocks > 0 &&
	    scan->fixed_length != cursor->fixed_length)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the size of blocks changed between streams, from %" PRIu64
				     " to %" PRIu64,
				     cursor->fixed_length, scan->fixed_length);
	return 0;
}

/* The first block of a stream may begin before the requested offset. On the first stream
 * it is delivered unchanged; later it is clipped to the blocks already delivered. */
static void cursor_clip(struct client_cursor *cursor)
{
	struct cairn_block *first = cursor->batch;

	if (cursor->n == 0 || first->offset >= cursor->at || !cursor->begun)
		return;
	first->length -= cursor->at - first->offset;
	first->offset = cursor->at;
}

int client_cursor_take(struct client_cursor *cursor, const uint8_t *data, size_t len,
		       struct cairn_err *err)
{
	const struct block_sink sink = {.emit = cursor_keep, .arg = cursor};
	int rc;

	/* `n` follows only when the whole message was checked: all of its blocks or none. */
	cursor->n = 0;
	cursor->taken = 0;
	rc = proto_block_scan(&cursor->scan, data, len, &sink, err);
	if (!rc)
		rc = same_volume(cursor, err);
	if (rc)
		return rc;
	cursor->n = cursor->taken;
	cursor_clip(cursor);
	for (size_t i = 0; i < cursor->n; i++)
		cursor->bytes += cursor->batch[i].length;
	if (cursor->blocks == 0)
		cursor->fixed_length = cursor->scan.fixed_length;
	if (cursor->n > 0)
		cursor->at = cursor->scan.end;
	cursor->type = cursor->scan.type;
	cursor->capacity = cursor->scan.capacity;
	cursor->begun = true;
	cursor->blocks += cursor->n;
	cursor->messages++;
	return 0;
}

bool client_cursor_at_end(const struct client_cursor *cursor)
{
	return cursor->begun && cursor->at >= cursor->capacity;
}
