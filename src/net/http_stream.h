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
	uint32_t key_updates, key_updates_max; /* and handshakes begun anew, by the peer */
	bool accepted;                         /* the handshake is over */
};

/* Has a TLS peer that passes key_updates_max cut off: OpenSSL would go on with
 * them for as long as they come, whatever the deadline. */
void net_http_stream_limit_updates(struct net_http_stream *stream);

/* All return CAIRN_DEADLINE when `until` (monotonic nanoseconds) comes first
 * and CAIRN_CANCELLED when the connection is broken. */

/* Goes on with the server's side of a TLS handshake as far as it can without waiting:
 * 0 when it is over, 1 when net_http_stream_wait() comes next. 0 at once without TLS. */
int net_http_stream_accept(struct net_http_stream *stream);

/* After a handshake that failed: reads what comes for a moment. A peer that sent its
 * request behind a bad certificate would lose the alert, because a socket that is
 * closed with bytes unread is reset. */
void net_http_stream_drop(const struct net_http_stream *stream);

/* Waits for what the handshake wants next. */
int net_http_stream_wait(struct net_http_stream *stream, uint64_t until);

/* Some bytes (how many), or 0 at the end. */
long net_http_stream_read(struct net_http_stream *stream, void *out, size_t cap, uint64_t until);

/* Waits up to `stall_ms` for each step forward. */
int net_http_stream_write(struct net_http_stream *stream, const void *data, size_t n,
			  uint64_t stall_ms);

/* Did the peer close its side or break the connection? */
bool net_http_stream_gone(const struct net_http_stream *stream);

/* Closes; tells a TLS peer first when `clean`. */
void net_http_stream_close(struct net_http_stream *stream, bool clean);

#endif
