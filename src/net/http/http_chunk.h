/* SPDX-License-Identifier: Apache-2.0 */

/* Decodes a chunked request body: bytes in, bytes out. */
#ifndef CAIRN_NET_HTTP_CHUNK_H
#define CAIRN_NET_HTTP_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

/* Maximum length of one size line with its extensions, and of all trailer
 * fields together: both are discarded, so a peer could otherwise send them
 * without end. */
#define NET_HTTP_CHUNK_LINE_MAX 256
#define NET_HTTP_TRAILERS_MAX   8192

struct net_http_chunks {
	enum {
		NET_CHUNK_SIZE,
		NET_CHUNK_EXTENSION,
		NET_CHUNK_SIZE_LF,
		NET_CHUNK_DATA,
		NET_CHUNK_DATA_CR,
		NET_CHUNK_DATA_LF,
		NET_CHUNK_TRAILER,
		NET_CHUNK_TRAILER_LF,
		NET_CHUNK_DONE,
	} state;
	uint64_t left;       /* of the chunk */
	unsigned digits;     /* of the size line */
	unsigned line;       /* bytes of this line */
	unsigned trailers;   /* bytes of all trailers */
	unsigned in_trailer; /* bytes of this trailer line */
};

/* Decodes bytes of `data`, appends the result to `body` and stores the number
 * of consumed bytes in *ret_used: all of them unless the body ended. Returns 1
 * when it ended, 0 to continue, or an HTTP status: 400 for a malformed chunked
 * body, 413 when `body` is full. */
int net_http_chunks_feed(struct net_http_chunks *chunks, const char *data, size_t n,
			 struct cairn_buf *body, size_t *ret_used);

#endif
