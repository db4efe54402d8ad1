/* SPDX-License-Identifier: Apache-2.0 */

/* What a stream of block metadata is asked with: bytes of the request and the
 * method's path. Requests hold a token: they are overwritten before their memory
 * is given back. */
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

/* Appends the request; the buffer's failure says whether it fits. */
void client_call_pack(const struct client_call *call, struct cairn_buf *buf);

#endif
