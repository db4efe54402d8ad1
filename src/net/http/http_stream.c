/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_stream.h"
#include "net/limit_events.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

/* The kernel allows twice as much, and otherwise up to 4 MiB (net.ipv4.tcp_wmem). */
#define UNSENT_BYTES (32 << 10)

#define ALERT_MS    500
#define ALERT_BYTES (64U << 10)

/* 0 when the socket is ready, or a code. */
static int wait_ready(const struct net_http_stream *stream, short events, uint64_t until)
{
	struct pollfd fd = {.fd = stream->fd, .events = events};

	for (;;) {
		uint64_t now = cairn_monotonic_ns();
		uint64_t left = until > now ? (until - now) / CAIRN_NS_PER_MS + 1 : 0;
		int n;

		if (left == 0)
			return CAIRN_DEADLINE;
		n = poll(&fd, 1, left > INT32_MAX ? INT32_MAX : (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return CAIRN_CANCELLED;
	}
}

/* Clears errors that a handler's own use of OpenSSL left in this thread's queue:
 * SSL_get_error() would attribute them to the next call. */
static SSL *ssl_of(const struct net_http_stream *stream)
{
	ERR_clear_error();
	return stream->ssl;
}

/* After an SSL call that returned `rc`: 0 to try again, or a code. */
static int wait_tls(const struct net_http_stream *stream, int rc, uint64_t until)
{
	int why = SSL_get_error(stream->ssl, rc);

	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ)
		return wait_ready(stream, POLLIN, until);
	if (why == SSL_ERROR_WANT_WRITE)
		return wait_ready(stream, POLLOUT, until);
	return CAIRN_CANCELLED;
}

void net_http_stream_drop(const struct net_http_stream *stream)
{
	uint64_t until = cairn_monotonic_ns() + ALERT_MS * CAIRN_NS_PER_MS;
	char dropped[4096];
	size_t left = ALERT_BYTES;

	if (shutdown(stream->fd, SHUT_WR) != 0)
		return;
	/* close() with unread input sends a reset, at which the peer may discard our last bytes. */
	while (left > 0 && wait_ready(stream, POLLIN, until) == 0) {
		ssize_t n =
			read(stream->fd, dropped, left < sizeof(dropped) ? left : sizeof(dropped));

		if (n <= 0)
			return;
		left -= (size_t)n;
	}
}

static void http_stream_count_message(int writing, int version, int type, const void *bytes,
				      size_t n, SSL *ssl, void *arg)
{
	struct net_http_stream *stream = arg;
	unsigned char message;

	(void)version;
	(void)ssl;
	if (writing || type != SSL3_RT_HANDSHAKE || !stream->accepted || n == 0)
		return;
	message = *(const unsigned char *)bytes;
	if (message != SSL3_MT_KEY_UPDATE && message != SSL3_MT_CLIENT_HELLO)
		return;
	if (++stream->key_updates <= stream->key_updates_max)
		return;
	net_limit_count(NET_LIMIT_KEY_UPDATES);
	/* This callback cannot fail; the next read or write of the socket does. */
	(void)shutdown(stream->fd, SHUT_RDWR);
}

void net_http_stream_limit_updates(struct net_http_stream *stream)
{
	SSL_set_msg_callback(stream->ssl, http_stream_count_message);
	SSL_set_msg_callback_arg(stream->ssl, stream);
}

void net_http_stream_limit_unsent(struct net_http_stream *stream, bool limit)
{
	int bytes = UNSENT_BYTES, by_the_kernel = 0;

	if (stream->unsent_limited == limit)
		return;
	stream->unsent_limited = limit;
	/* SO_SNDBUF also ends the kernel's own sizing, which only SO_BUF_LOCK (Linux 5.14) resumes. */
	if (limit)
		(void)setsockopt(stream->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	else
		(void)setsockopt(stream->fd, SOL_SOCKET, SO_BUF_LOCK, &by_the_kernel,
				 sizeof(by_the_kernel));
}

int net_http_stream_accept(struct net_http_stream *stream)
{
	int n, why;

	if (!stream->ssl)
		return 0;
	n = SSL_accept(ssl_of(stream));
	if (n == 1) {
		stream->accepted = true;
		return 0;
	}
	why = SSL_get_error(stream->ssl, n);
	ERR_clear_error();
	return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 1 : CAIRN_CANCELLED;
}

int net_http_stream_wait(struct net_http_stream *stream, uint64_t until)
{
	return wait_ready(stream, SSL_want_write(stream->ssl) ? POLLOUT : POLLIN, until);
}

static long read_tls(struct net_http_stream *stream, void *out, size_t cap, uint64_t until)
{
	int rc = 0;

	while (rc == 0) {
		size_t got = 0;
		int n = SSL_read_ex(ssl_of(stream), out, cap, &got);

		if (n == 1)
			return (long)got;
		if (SSL_get_error(stream->ssl, n) == SSL_ERROR_ZERO_RETURN)
			return 0;
		rc = wait_tls(stream, n, until);
	}
	return rc;
}

long net_http_stream_read(struct net_http_stream *stream, void *out, size_t cap, uint64_t until)
{
	if (stream->ssl)
		return read_tls(stream, out, cap, until);
	for (;;) {
		ssize_t n = read(stream->fd, out, cap);
		int rc;

		if (n >= 0)
			return n;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return CAIRN_CANCELLED;
		rc = wait_ready(stream, POLLIN, until);
		if (rc < 0)
			return rc;
	}
}

/* Writes a part: how many bytes, 0 to try again, or a code. */
static long write_some(struct net_http_stream *stream, const void *data, size_t n, uint64_t until)
{
	ssize_t sent;

	if (stream->ssl) {
		size_t done = 0;
		int rc = SSL_write_ex(ssl_of(stream), data, n, &done);

		return rc == 1 ? (long)done : wait_tls(stream, rc, until);
	}
	sent = send(stream->fd, data, n, MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	if (errno == EINTR)
		return 0;
	return errno == EAGAIN ? wait_ready(stream, POLLOUT, until) : CAIRN_CANCELLED;
}

int net_http_stream_write(struct net_http_stream *stream, const void *data, size_t n,
			  uint64_t stall_ms)
{
	const char *p = data;
	uint64_t until = cairn_monotonic_ns() + stall_ms * CAIRN_NS_PER_MS;

	while (n > 0) {
		long done = write_some(stream, p, n, until);

		if (done == CAIRN_DEADLINE)
			net_limit_count(NET_LIMIT_STALL_TIME);
		if (done < 0)
			return (int)done;
		if (done > 0)
			until = cairn_monotonic_ns() + stall_ms * CAIRN_NS_PER_MS;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

bool net_http_stream_gone(const struct net_http_stream *stream)
{
	struct pollfd fd = {.fd = stream->fd, .events = POLLRDHUP};

	return poll(&fd, 1, 0) > 0;
}

void net_http_stream_close(struct net_http_stream *stream, bool clean)
{
	if (stream->ssl && clean)
		(void)SSL_shutdown(ssl_of(stream));
	ERR_clear_error();
	SSL_free(stream->ssl);
	stream->ssl = NULL;
	cairn_closep(&stream->fd);
}
