/* SPDX-License-Identifier: Apache-2.0 */

/* Joins the streams of one listing: messages in, blocks out.
 *
 * proto/block_metadata.h checks each stream. This file checks that streams fit together:
 * the next one continues where the last one ended and reports the same volume. A block
 * that begins before that position is clipped, so that the caller sees one sequence of
 * blocks. No descriptor, no clock, no thread.
 *
 * A message is accepted completely or not at all: its blocks are held back until the whole
 * message was checked.
 */
#ifndef CAIRN_CLIENT_CURSOR_H
#define CAIRN_CLIENT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cairn/client.h>

#include "proto/block_metadata.h"

struct cairn_err;

/* Limit of one message: the default of gRPC peers. It also bounds the blocks that are
 * held, each of which takes at least four bytes. */
#define CLIENT_MESSAGE_MAX (4U << 20)

struct client_cursor {
	struct proto_block_scan scan; /* of the stream */
	uint32_t max_results;
	uint64_t at; /* everything before this was delivered */

	bool begun; /* a message arrived: type and capacity are valid */
	uint32_t type;
	uint64_t capacity;
	uint64_t fixed_length; /* of the first block */
	uint64_t blocks, bytes, messages, streams;

	struct cairn_block *batch; /* of the last message */
	size_t n, cap;
	size_t taken; /* while a message is decoded */
};

void client_cursor_init(struct client_cursor *cursor, uint64_t starting_offset,
			uint32_t max_results);
void client_cursor_done(struct client_cursor *cursor);

/* Starts a new stream, which was requested from `at` on. */
void client_cursor_stream(struct client_cursor *cursor);

/* Decodes the stream's next message into `batch`. After an error the message is dropped
 * and the stream must end.
 *
 * CAIRN_INTERNAL  the message violates a rule
 * CAIRN_NO_SPACE  out of memory
 */
int client_cursor_take(struct client_cursor *cursor, const uint8_t *data, size_t len,
		       struct cairn_err *err);

/* True if no block can follow, whether or not the stream has ended. */
bool client_cursor_at_end(const struct client_cursor *cursor);

#endif
