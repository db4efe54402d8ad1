/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_chunk.h"

#include "base/buf.h"

enum { BAD_REQUEST = 400, TOO_LARGE = 413 };

/* 60 bits of size: no sum with it overflows. */
#define SIZE_DIGITS_MAX 15

static int http_chunk_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A byte of the size or what follows it on its line. */
static int feed_size(struct net_http_chunks *chunks, char c)
{
	int digit = http_chunk_hex_value(c);

	if (++chunks->line > NET_HTTP_CHUNK_LINE_MAX)
		return BAD_REQUEST;
	if (chunks->state == NET_CHUNK_SIZE && digit >= 0) {
		chunks->left = chunks->left << 4 | (unsigned)digit;
		return ++chunks->digits > SIZE_DIGITS_MAX ? BAD_REQUEST : 0;
	}
	if (chunks->digits == 0)
		return BAD_REQUEST;
	if (c == '\r')
		chunks->state = NET_CHUNK_SIZE_LF;
	else if (chunks->state == NET_CHUNK_SIZE && c == ';')
		chunks->state = NET_CHUNK_EXTENSION;
	else if (chunks->state == NET_CHUNK_SIZE || c == '\n')
		return BAD_REQUEST;
	return 0;
}

/* The line feed after a size: data follow, or trailers after size 0. */
static void begin_chunk(struct net_http_chunks *chunks)
{
	chunks->state = chunks->left ? NET_CHUNK_DATA : NET_CHUNK_TRAILER;
	chunks->digits = 0;
	chunks->line = 0;
}

/* Trailers are read up to the empty line and discarded. */
static int feed_trailer(struct net_http_chunks *chunks, char c)
{
	if (++chunks->trailers > NET_HTTP_TRAILERS_MAX)
		return BAD_REQUEST;
	if (chunks->state == NET_CHUNK_TRAILER) {
		if (c == '\r')
			chunks->state = NET_CHUNK_TRAILER_LF;
		else if (c == '\n')
			return BAD_REQUEST;
		else
			chunks->in_trailer++;
		return 0;
	}
	if (c != '\n')
		return BAD_REQUEST;
	chunks->state = chunks->in_trailer ? NET_CHUNK_TRAILER : NET_CHUNK_DONE;
	chunks->in_trailer = 0;
	return 0;
}

static int feed_mark(struct net_http_chunks *chunks, char c)
{
	switch (chunks->state) {
	case NET_CHUNK_SIZE:
	case NET_CHUNK_EXTENSION:
		return feed_size(chunks, c);
	case NET_CHUNK_SIZE_LF:
		if (c != '\n')
			return BAD_REQUEST;
		begin_chunk(chunks);
		return 0;
	case NET_CHUNK_DATA_CR:
		chunks->state = NET_CHUNK_DATA_LF;
		return c == '\r' ? 0 : BAD_REQUEST;
	case NET_CHUNK_DATA_LF:
		chunks->state = NET_CHUNK_SIZE;
		return c == '\n' ? 0 : BAD_REQUEST;
	case NET_CHUNK_TRAILER:
	case NET_CHUNK_TRAILER_LF:
		return feed_trailer(chunks, c);
	case NET_CHUNK_DATA:
	case NET_CHUNK_DONE:
		break;
	}
	return BAD_REQUEST;
}

int net_http_chunks_feed(struct net_http_chunks *chunks, const char *data, size_t n,
			 struct cairn_buf *body, size_t *ret_used)
{
	size_t i = 0;
	int status = 0;

	while (i < n && status == 0 && chunks->state != NET_CHUNK_DONE) {
		if (chunks->state == NET_CHUNK_DATA) {
			size_t take = n - i < chunks->left ? n - i : (size_t)chunks->left;

			cairn_buf_add(body, data + i, take);
			chunks->left -= take;
			i += take;
			if (chunks->left == 0)
				chunks->state = NET_CHUNK_DATA_CR;
			status = cairn_buf_failed(body) ? TOO_LARGE : 0;
		} else {
			status = feed_mark(chunks, data[i++]);
		}
	}
	*ret_used = i;
	return status ? status : chunks->state == NET_CHUNK_DONE;
}
