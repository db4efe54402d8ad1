/* SPDX-License-Identifier: Apache-2.0 */

#include "overload.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/num.h"
#include "cairntest.h"
#include "net/http/http_server.h"

int overload_dial(unsigned host, uint16_t port)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(0x7f000000U + host)};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = {.tv_sec = 120};

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	/* A server that is over its limit may reset the connection before connect() returns. */
	assert_true(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 || errno == ECONNRESET);
	return fd;
}

static SSL *new_session(const char *protocol)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	uint8_t alpn[16];
	size_t n = strlen(protocol);

	alpn[0] = (uint8_t)n;
	memcpy(alpn + 1, protocol, n);
	assert_int_equal(SSL_set_alpn_protos(ssl, alpn, (unsigned)n + 1), 0);
	SSL_CTX_free(ctx);
	return ssl;
}

static SSL *shake_hands(int fd, const char *protocol)
{
	SSL *ssl = new_session(protocol);

	SSL_set_fd(ssl, fd);
	assert_int_equal(SSL_connect(ssl), 1);
	return ssl;
}

static void send_in_pieces(int fd, BIO *from, size_t piece)
{
	char *data;
	size_t n = (size_t)BIO_get_mem_data(from, &data);

	for (size_t at = 0; at < n; at += piece) {
		size_t part = n - at < piece ? n - at : piece;

		assert_int_equal(send(fd, data + at, part, MSG_NOSIGNAL), part);
	}
	(void)BIO_reset(from);
}

void overload_handshake_in_pieces(int fd, const char *protocol, size_t piece)
{
	SSL *ssl = new_session(protocol);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	int on = 1;
	int rc;

	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	SSL_set_bio(ssl, in, out);
	while ((rc = SSL_connect(ssl)) != 1) {
		char data[4096];
		ssize_t n;

		assert_int_equal(SSL_get_error(ssl, rc), SSL_ERROR_WANT_READ);
		send_in_pieces(fd, out, piece);
		n = recv(fd, data, sizeof(data), 0);
		assert_true(n > 0);
		assert_int_equal(BIO_write(in, data, (int)n), n);
	}
	send_in_pieces(fd, out, piece);
	SSL_free(ssl);
}

bool overload_key_updates(int fd, const char *protocol, unsigned n)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	SSL *ssl = shake_hands(fd, protocol);
	bool ended = false;

	sigaction(SIGPIPE, &ignore, NULL);
	for (unsigned i = 0; i < n && !ended; i++) {
		char byte;

		ended = SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1 ||
			SSL_do_handshake(ssl) != 1;
		/* Its answers are taken, or it would stop for want of a reader. */
		if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
			ended = true;
		while (!ended && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
			char drop[4096];

			(void)recv(fd, drop, sizeof(drop), MSG_DONTWAIT);
		}
	}
	ERR_clear_error();
	SSL_free(ssl);
	return ended;
}

size_t overload_resident(void)
{
	char text[256] = "", *second;
	struct cairn_err err = {0};
	uint64_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	second = strchr(text, ' ') + 1;
	*strchr(second, ' ') = '\0';
	assert_ok(cairn_parse_u64(second, &pages, &err), &err);
	return pages * 4096;
}

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
	__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#else
#define SANITIZED false
#endif

void overload_assert_memory(size_t before, size_t more)
{
	size_t now = overload_resident();

	if (!SANITIZED && now > before + more)
		fail_msg("grown from %zu to %zu bytes", before, now);
}

void overload_wait_memory(size_t before, size_t more)
{
	for (int i = 0; i < 6000 && !SANITIZED && overload_resident() > before + more; i++)
		cairn_sleep_ms(10);
	overload_assert_memory(before, more);
}

size_t overload_descriptors(size_t n)
{
	const size_t others = 500;
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur < n + others ? limit.rlim_cur - others : n;
}

int overload_flood(struct net_http *http, void *result, struct cairn_err *err)
{
	static char piece[65536];
	int rc = net_http_begin(http, 200, "text/plain", err);

	while (rc == 0)
		rc = net_http_write(http, piece, sizeof(piece), err);
	if (result)
		*(atomic_int *)result = rc;
	return rc;
}

_Atomic int overload_trims, overload_trim_priority;

/* Stands before the C library's. */
int malloc_trim(size_t pad)
{
	int (*real)(size_t pad);

	*(void **)&real = dlsym(RTLD_NEXT, "malloc_trim");
	overload_trim_priority = getpriority(PRIO_PROCESS, 0);
	overload_trims++;
	return real(pad);
}
