/* SPDX-License-Identifier: Apache-2.0 */

/* A socket with or without TLS, read and written with deadlines by one thread. */
#ifndef CAIRN_NET_HTTP_STREAM_H
#define CAIRN_NET_HTTP_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ssl_st;

struct net_http_stream {
	int fd; /* does not block */
	struct ssl_st *ssl;
	uint32_t key_updates, key_updates_max; /* including renegotiations, by the peer */
	bool accepted;                         /* the handshake is over */
	bool unsent_limited;
};

/* Disconnects a TLS peer that exceeds key_updates_max: OpenSSL would process
 * them for as long as they arrive, regardless of the deadline. */
void net_http_stream_limit_updates(struct net_http_stream *stream);

/* Limits the bytes that the kernel keeps for the peer, 64 KiB, or leaves them to the kernel. An
 * unauthenticated peer that reads nothing would otherwise use megabytes. */
void net_http_stream_limit_unsent(struct net_http_stream *stream, bool limit);

/* All return CAIRN_DEADLINE when `until` (monotonic nanoseconds) comes first
 * and CAIRN_CANCELLED when the connection is broken. */

/* Continues the server's side of a TLS handshake as far as it can without waiting: 0
 * when it is complete, 1 when net_http_stream_wait() must follow. 0 at once without
 * TLS. */
int net_http_stream_accept(struct net_http_stream *stream);

/* After a failed handshake: reads input for a moment. A peer that sent its request
 * after a bad certificate would lose the alert, because closing a socket with unread
 * bytes resets the connection. */
void net_http_stream_drop(const struct net_http_stream *stream);

/* Waits for the I/O that the handshake needs next. */
int net_http_stream_wait(struct net_http_stream *stream, uint64_t until);

/* Returns the number of bytes read, or 0 at the end. */
long net_http_stream_read(struct net_http_stream *stream, void *out, size_t cap, uint64_t until);

/* Waits up to `stall_ms` for each piece of progress. */
int net_http_stream_write(struct net_http_stream *stream, const void *data, size_t n,
			  uint64_t stall_ms);

/* True if the peer has closed its side or the connection is broken. */
bool net_http_stream_gone(const struct net_http_stream *stream);

/* Closes the stream; with `clean`, sends a TLS close notification first. */
void net_http_stream_close(struct net_http_stream *stream, bool clean);

#endif
