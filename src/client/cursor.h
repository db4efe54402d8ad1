/* SPDX-License-Identifier: Apache-2.0 */

/* One listing over however many streams it takes: messages in, blocks out.
 *
 * A stream is checked by proto/block_metadata.h. What lies between streams is
 * checked here: the next one goes on where the last one ended, says the same of
 * the volume, and a block of it that begins before that place is clipped, so
 * that the caller sees one run of blocks. No descriptor, no clock, no thread.
 *
 * A message counts as a whole or not at all: blocks are kept until all of their
 * message was found good.
 */
#ifndef CAIRN_CLIENT_CURSOR_H
#define CAIRN_CLIENT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cairn/client.h>

#include "proto/block_metadata.h"

struct cairn_err;

/* Bytes of one message: what every gRPC peer takes, and a bound for the blocks
 * that are kept, of which none takes less than four bytes. */
#define CLIENT_MESSAGE_MAX (4U << 20)

struct client_cursor {
	struct proto_block_scan scan; /* of the stream */
	uint32_t max_results;
	uint64_t at; /* everything before was handed out */

	bool begun; /* a message came: type and capacity hold */
	uint32_t type;
	uint64_t capacity;
	uint64_t fixed_length; /* of the first block */
	uint64_t blocks, bytes, messages, streams;

	struct cairn_block *batch; /* of the last message */
	size_t n, cap;
	size_t taken; /* while a message is read */
};

void client_cursor_init(struct client_cursor *cursor, uint64_t starting_offset,
			uint32_t max_results);
void client_cursor_done(struct client_cursor *cursor);

/* A stream was asked for from `at` on. */
void client_cursor_stream(struct client_cursor *cursor);

/* Takes the stream's next message; its blocks are in `batch` then. After an
 * error nothing of the message counts and the stream is over.
 *
 * CAIRN_INTERNAL  a rule is broken
 * CAIRN_NO_SPACE  out of memory
 */
int client_cursor_take(struct client_cursor *cursor, const uint8_t *data, size_t len,
		       struct cairn_err *err);

/* True when nothing can follow, whether or not the stream said so. */
bool client_cursor_at_end(const struct client_cursor *cursor);

#endif
