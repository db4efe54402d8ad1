/* SPDX-License-Identifier: Apache-2.0 */

/* Encodes the request of a block metadata stream and selects the method's path. Requests
 * contain a token, so their memory is overwritten before it is freed. */
#ifndef CAIRN_CLIENT_CALL_H
#define CAIRN_CLIENT_CALL_H

#include <stdint.h>

struct cairn_buf;

struct client_call {
	const char *token;
	const char *namespace_name;
	const char *snapshot;
	const char *base_id; /* NULL: allocated blocks */
	uint64_t starting_offset;
	uint32_t max_results;
};

const char *client_call_path(const struct client_call *call);

/* Appends the request; check the buffer's failure flag. */
void client_call_pack(const struct client_call *call, struct cairn_buf *buf);

#endif
