/* SPDX-License-Identifier: Apache-2.0 */

/* A listing over several streams. The first three bytes are what was asked;
 * then a byte each: 0xff begins another stream, any other is the length of the
 * message that follows. Whatever comes, the blocks that are handed out ascend
 * and do not overlap, and the listing never moves back. */

#include <stdint.h>
#include <stdlib.h>

#include "client/cursor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
	if (!holds)
		abort();
}

struct before {
	uint64_t at, blocks, bytes;
	bool begun;
};

static void check(const struct client_cursor *c, const struct before *before, uint64_t *end)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < c->n; i++) {
		require(c->batch[i].length > 0);
		require(c->batch[i].offset >= *end);
		*end = c->batch[i].offset + c->batch[i].length;
		require(*end > c->batch[i].offset);
		bytes += c->batch[i].length;
	}
	require(!before->begun || c->n == 0 || c->batch[0].offset >= before->at);
	require(c->at >= before->at);
	require(c->n == 0 || c->at == *end);
	require(c->blocks == before->blocks + c->n);
	require(c->bytes == before->bytes + bytes);
}

static int take(struct client_cursor *c, const uint8_t *data, size_t n, uint64_t *end)
{
	struct before before = {c->at, c->blocks, c->bytes, c->begun};

	if (client_cursor_take(c, data, n, NULL) == 0) {
		check(c, &before, end);
		return 0;
	}
	require(c->n == 0 && c->at == before.at && c->blocks == before.blocks);
	return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct client_cursor cursor;
	uint64_t end = 0;
	bool open = true;

	if (size < 3)
		return 0;
	client_cursor_init(&cursor, (uint64_t)data[0] << 10 | data[1], data[2]);
	client_cursor_stream(&cursor);
	for (data += 3, size -= 3; size > 0;) {
		size_t n = data[0] < size - 1 ? data[0] : size - 1;

		if (data[0] == 0xff) {
			client_cursor_stream(&cursor);
			open = true;
			n = 0;
		} else if (open) {
			/* After an error the stream is over. */
			open = take(&cursor, data + 1, n, &end) == 0;
		}
		data += 1 + n;
		size -= 1 + n;
	}
	client_cursor_done(&cursor);
	return 0;
}
