/* SPDX-License-Identifier: Apache-2.0 */

/* The whole server over loopback sockets. */

#include "cairntest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "base/mem.h"
#include "limits_counted.h"
#include "net/http/http_server.h"
#include "net/http/http_standard.h"
#include "net/metrics.h"
#include "net/tls/tls_settings.h"
#include "overload.h"
#include "tls_files.h"

#define HOST      "Host: h\r\n"
#define REPLY_MAX (1U << 20)

static int echo(struct net_http *http, void *arg, struct cairn_err *err)
{
	size_t n;
	const void *body = net_http_body(http, &n);

	(void)arg;
	assert_int_equal(net_http_add_field(http, "X-Path", net_http_path(http), NULL), 0);
	assert_int_equal(net_http_add_field(http, "X-Bad", "a\r\nb", NULL), CAIRN_INVALID);
	return net_http_reply(http, 200, "application/octet-stream", body, n, err);
}

static int numbers(struct net_http *http, void *arg, struct cairn_err *err)
{
	int rc = net_http_begin(http, 200, "text/plain", err);

	(void)arg;
	for (int i = 0; rc == 0 && i < 3; i++) {
		char text[16];
		int n = snprintf(text, sizeof(text), "%d\n", i);

		rc = net_http_write(http, text, (size_t)n, err);
	}
	return rc;
}

static int broken(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	(void)net_http_begin(http, 200, "text/plain", err);
	(void)net_http_write(http, "part", 4, err);
	return cairn_err_set(err, CAIRN_INTERNAL, "lost the rest");
}

/* As a handler does that is a TLS client itself, and fails. */
static int leaves_errors(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	ERR_raise(ERR_LIB_USER, 1);
	return net_http_reply_text(http, 200, "fine", err);
}

static int missing(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)http;
	(void)arg;
	return cairn_err_set(err, CAIRN_NOT_FOUND, "no such thing");
}

static int whose(struct net_http *http, void *arg, struct cairn_err *err)
{
	const char *name = net_http_tls_name(http);

	(void)arg;
	return net_http_reply_text(http, 200, name ? name : "nobody", err);
}

static atomic_int flood_result;

static atomic_bool ready_now;

static bool is_ready(void *arg, char *reason, size_t cap)
{
	(void)arg;
	snprintf(reason, cap, "no driver yet");
	return ready_now;
}

struct world {
	struct net_http_server *server;
	struct net_metrics *metrics;
	struct net_http_standard standard;
	uint16_t port;
};

static void start(struct world *w, struct net_http_limits limits, struct net_tls *tls)
{
	static const struct net_http_route routes[] = {
		{.method = "POST", .path = "/echo", .handler = echo},
		{.method = "GET", .path = "/echo", .handler = echo},
		{.method = "GET", .path = "/tree/", .handler = echo},
		{.method = "GET", .path = "/tree/leaf", .handler = missing},
		{.method = "GET", .path = "/numbers", .handler = numbers},
		{.method = "GET", .path = "/broken", .handler = broken},
		{.method = "GET",
		 .path = "/flood",
		 .handler = overload_flood,
		 .arg = &flood_result},
		{.method = "GET", .path = "/errors", .handler = leaves_errors},
		{.method = "GET", .path = "/whose", .handler = whose},
	};
	struct cairn_err err = {0};

	memset(w, 0, sizeof(*w));
	assert_ok(net_metrics_new(&w->metrics, &err), &err);
	w->standard.ready = is_ready;
	w->standard.metrics = w->metrics;
	w->standard.other_ready_path = "/health";
	assert_ok(net_metrics_add_process(w->metrics, &err), &err);
	assert_ok(
		net_http_server_new(&(struct net_http_options){.limits = limits}, &w->server, &err),
		&err);
	assert_ok(net_http_server_add(w->server, routes, ARRAY_LEN(routes), &err), &err);
	assert_ok(net_http_add_standard(w->server, &w->standard, &err), &err);
	assert_ok(net_http_server_listen(w->server, "127.0.0.1:0", tls, &w->port, &err), &err);
	assert_ok(net_http_server_start(w->server, &err), &err);
}

static void stop(struct world *w)
{
	net_http_server_free(w->server);
	net_metrics_free(w->metrics);
}

static int dial(const struct world *w)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(w->port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = {.tv_sec = 120};

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	(void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* Everything until the server closes. */
static char *hear(int fd)
{
	static char reply[REPLY_MAX];
	size_t n = 0;
	ssize_t got;

	while (n < sizeof(reply) - 1 && (got = read(fd, reply + n, sizeof(reply) - 1 - n)) > 0)
		n += (size_t)got;
	reply[n] = 0;
	close(fd);
	return reply;
}

static char *ask(const struct world *w, const char *text)
{
	int fd = dial(w);

	say(fd, text);
	return hear(fd);
}

static void assert_status(const char *reply, int status)
{
	char want[32];

	snprintf(want, sizeof(want), "HTTP/1.1 %d ", status);
	if (strncmp(reply, want, strlen(want)) != 0)
		fail_msg("want %d, got: %.300s", status, reply);
}

#define CLOSE "Connection: close\r\n\r\n"

static void requests_find_their_handlers(void **state)
{
	static const struct {
		const char *text;
		int status;
		const char *holds;
	} cases[] = {
		{"GET /echo HTTP/1.1\r\n" HOST CLOSE, 200, "X-Path: /echo\r\n"},
		{"GET /tree/a%2fb HTTP/1.1\r\n" HOST CLOSE, 200, "X-Path: /tree/a/b\r\n"},
		{"GET /tree/leaf HTTP/1.1\r\n" HOST CLOSE, 404, "no such thing"},
		{"GET /tree HTTP/1.1\r\n" HOST CLOSE, 404, "not found"},
		{"DELETE /echo HTTP/1.1\r\n" HOST CLOSE, 405, "Allow: POST, GET\r\n"},
		{"POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n" CLOSE "hello", 200,
		 "Content-Length: 5\r\n"},
		{"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n" CLOSE
		 "2\r\nhi\r\n0\r\n\r\n",
		 200, "\r\n\r\nhi"},
		{"POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n" CLOSE, 200, "X-Path"},
		{"GET /numbers HTTP/1.1\r\n" HOST CLOSE, 200,
		 "\r\n\r\n2\r\n0\n\r\n2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n"},
		{"GET /numbers HTTP/1.0\r\n\r\n", 200, "\r\n\r\n0\n1\n2\n"},
		{"HEAD /numbers HTTP/1.1\r\n" HOST CLOSE, 200, "chunked"},
		{"HEAD /echo HTTP/1.1\r\n" HOST CLOSE, 200, "Content-Length: 0\r\n"},
		{"GET /healthz HTTP/1.1\r\n" HOST CLOSE, 200, "\r\n\r\nok"},
		{"GET /metrics HTTP/1.1\r\n" HOST CLOSE, 200, "process_start_time_seconds"},
		{"garbage\r\n\r\n", 400, "bad request"},
		{"GET / HTTP/3.0\r\n\r\n", 505, "bad request"},
		{"PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 1048577\r\n\r\n", 413, ""},
		{"POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400, ""},
	};
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){0}, NULL);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *reply = ask(&w, cases[i].text);

		assert_status(reply, cases[i].status);
		if (!strstr(reply, cases[i].holds))
			fail_msg("case %zu: %s", i, reply);
	}
	stop(&w);
}

static void readiness_follows_the_role(void **state)
{
	static const char *const paths[] = {"/readyz", "/health"};
	struct world w;

	(void)state;
	start(&w, (struct net_http_limits){0}, NULL);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		char text[128];

		snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST CLOSE, paths[i]);
		ready_now = false;
		assert_status(ask(&w, text), 503);
		assert_non_null(strstr(ask(&w, text), "no driver yet"));
		ready_now = true;
		assert_status(ask(&w, text), 200);
	}
	stop(&w);
}

static void requests_may_follow_one_another(void **state)
{
	struct world w;
	const char *reply;
	size_t n = 0;

	(void)state;
	start(&w, (struct net_http_limits){0}, NULL);
	reply = ask(&w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc"
			"GET /numbers HTTP/1.1\r\n" HOST "\r\n"
			"HEAD /echo HTTP/1.1\r\n" HOST "\r\n"
			"GET /echo HTTP/1.1\r\n" HOST CLOSE);
	for (const char *p = reply; (p = strstr(p, "HTTP/1.1 200 OK")); p++)
		n++;
	assert_int_equal(n, 4);
	stop(&w);
}

static void a_reply_that_fails_half_way_does_not_look_whole(void **state)
{
	struct world w;
	const char *reply;

	(void)state;
	start(&w, (struct net_http_limits){0}, NULL);
	reply = ask(&w, "GET /broken HTTP/1.1\r\n" HOST "\r\n");
	assert_status(reply, 200);
	assert_non_null(strstr(reply, "part"));
	assert_null(strstr(reply, "0\r\n\r\n"));
	stop(&w);
}

static void a_peer_that_is_slow_or_large_is_cut_off(void **state)
{
	struct world w;
	char head[700];

	(void)state;
	start(&w, (struct net_http_limits){.first_ms = 600000, .header_ms = 50, .body_ms = 50},
	      NULL);
	assert_status(ask(&w, "GET /echo HTTP/1.1\r\nHo"), 408);
	assert_status(ask(&w, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nabc"), 408);
	stop(&w);
	start(&w, (struct net_http_limits){.idle_ms = 100}, NULL);
	assert_string_equal(ask(&w, ""), ""); /* idle: no reply, only an end */
	stop(&w);
	start(&w, (struct net_http_limits){.header_bytes = 512}, NULL);
	memset(head, 'x', sizeof(head));
	memcpy(head, "GET / HTTP/1.1\r\nA: ", 19);
	head[sizeof(head) - 1] = 0;
	assert_status(ask(&w, head), 431);
	stop(&w);
}

static int wait_for_flood(void)
{
	for (int i = 0; i < 12000 && flood_result == 0; i++)
		cairn_sleep_ms(5);
	return flood_result;
}

static void a_peer_that_reads_nothing_stops_its_handler_only(void **state)
{
	struct world w;
	char byte;
	int fd;

	(void)state;
	start(&w, (struct net_http_limits){.stall_ms = 100}, NULL);
	flood_result = 0;
	fd = dial(&w);
	say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
	assert_status(ask(&w, "GET /healthz HTTP/1.1\r\n" HOST CLOSE), 200);
	assert_int_equal(wait_for_flood(), CAIRN_DEADLINE);
	close(fd);
	stop(&w);
	/* And one that goes away, before anybody loses patience. */
	start(&w, (struct net_http_limits){.stall_ms = 600000}, NULL);
	flood_result = 0;
	fd = dial(&w);
	say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(read(fd, &byte, 1), 1);
	close(fd);
	assert_int_equal(wait_for_flood(), CAIRN_CANCELLED);
	stop(&w);
}

static void connections_above_the_limit_are_closed(void **state)
{
	struct world w;
	int fds[3];
	char byte;

	(void)state;
	start(&w, (struct net_http_limits){.connections = 3, .connections_each = 3}, NULL);
	for (int i = 0; i < 3; i++) {
		fds[i] = dial(&w);
		say(fds[i], "GET /flood HTTP/1.1\r\n" HOST "\r\n");
		assert_int_equal(read(fds[i], &byte, 1), 1);
	}
	assert_string_equal(ask(&w, ""), "");
	close(fds[0]);
	for (int i = 0; i < 6000; i++) { /* its place becomes free */
		if (*ask(&w, "GET /healthz HTTP/1.1\r\n" HOST CLOSE))
			break;
		cairn_sleep_ms(10);
	}
	assert_status(ask(&w, "GET /healthz HTTP/1.1\r\n" HOST CLOSE), 200);
	close(fds[1]);
	close(fds[2]);
	stop(&w);
}

static void a_connection_serves_so_many_requests(void **state)
{
	struct world w;
	const char *reply;
	size_t n = 0;

	(void)state;
	start(&w, (struct net_http_limits){.requests = 2}, NULL);
	reply = ask(&w, "GET /healthz HTTP/1.1\r\n" HOST "\r\nGET /healthz HTTP/1.1\r\n" HOST
			"\r\nGET /healthz HTTP/1.1\r\n" HOST "\r\n");
	for (const char *p = reply; (p = strstr(p, "HTTP/1.1 200 OK")); p++)
		n++;
	assert_int_equal(n, 2);
	/* The last says so, and only that one: nobody sends another into the void. */
	assert_true(strstr(reply, "Connection: close") > strstr(reply + 1, "HTTP/1.1 200 OK"));
	stop(&w);
}

static void a_drain_ends_idle_connections_and_cuts_the_rest(void **state)
{
	struct world w;
	int idle, busy;
	char byte;

	(void)state;
	start(&w, (struct net_http_limits){0}, NULL);
	idle = dial(&w);
	busy = dial(&w);
	say(busy, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(read(busy, &byte, 1), 1);
	flood_result = 0;
	assert_int_equal(net_http_server_drain(w.server, 100), 1);
	assert_int_equal(flood_result, CAIRN_CANCELLED);
	assert_string_equal(hear(idle), "");
	close(busy);
	stop(&w);
}

struct certs {
	char dir[64];
	struct tls_pair ca, leaf;
	char cert[128], key[128], authority[128];
};

static void certs_make(struct certs *c)
{
	scratch_template(c->dir, "http");
	assert_non_null(mkdtemp(c->dir));
	c->ca = tls_pair_make(&(struct tls_pair_spec){"ca", NULL, NULL, -3600, 3600});
	c->leaf = tls_pair_make(&(struct tls_pair_spec){"h", "DNS:h", &c->ca, -3600, 3600});
	tls_cert_write(c->dir, "crt", &c->leaf);
	tls_key_write(c->dir, "key", &c->leaf);
	tls_cert_write(c->dir, "ca", &c->ca);
	snprintf(c->cert, sizeof(c->cert), "%s/crt", c->dir);
	snprintf(c->key, sizeof(c->key), "%s/key", c->dir);
	snprintf(c->authority, sizeof(c->authority), "%s/ca", c->dir);
}

static void certs_done(struct certs *c)
{
	(void)remove(c->cert);
	(void)remove(c->key);
	(void)remove(c->authority);
	(void)rmdir(c->dir);
	tls_pair_done(&c->ca);
	tls_pair_done(&c->leaf);
}

/* Both ends of TLS, and a server that has its own. */
struct secured {
	struct certs certs;
	struct net_tls *server, *client;
	struct world world;
	SSL *ssl;
	int fd;
};

static void secured_start_with(struct secured *s, bool client_certificate)
{
	struct cairn_err err = {0};
	struct net_tls_options own, trust;

	memset(s, 0, sizeof(*s));
	certs_make(&s->certs);
	own = (struct net_tls_options){
		.cert_file = s->certs.cert, .key_file = s->certs.key, .http1 = true};
	trust = (struct net_tls_options){.ca_file = s->certs.authority, .http1 = true};
	if (client_certificate) {
		own.ca_file = s->certs.authority;
		trust.cert_file = s->certs.cert;
		trust.key_file = s->certs.key;
	}
	assert_ok(net_tls_server_new(&own, &s->server, &err), &err);
	assert_ok(net_tls_client_new(&trust, &s->client, &err), &err);
	start(&s->world, (struct net_http_limits){0}, s->server);
	s->fd = dial(&s->world);
	assert_ok(net_tls_session(s->client, "h", &s->ssl, &err), &err);
	SSL_set_fd(s->ssl, s->fd);
	assert_int_equal(SSL_connect(s->ssl), 1);
}

static void secured_start(struct secured *s)
{
	secured_start_with(s, false);
}

static void secured_stop(struct secured *s)
{
	SSL_free(s->ssl);
	close(s->fd);
	stop(&s->world);
	net_tls_freep(&s->client);
	net_tls_freep(&s->server);
	certs_done(&s->certs);
}

static void the_same_works_over_tls(void **state)
{
	static char big[300000], reply[400000];
	struct world hasty;
	struct secured s;
	size_t n = 0, got;

	(void)state;
	secured_start(&s);
	memset(big, 'b', sizeof(big));
	n = (size_t)snprintf(big, sizeof(big),
			     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 299000\r\n" CLOSE);
	big[n] = 'b';
	assert_int_equal(SSL_write(s.ssl, big, (int)n + 299000), (int)n + 299000);
	for (n = 0; SSL_read_ex(s.ssl, reply + n, sizeof(reply) - n, &got) == 1;)
		n += got;
	assert_status(reply, 200);
	assert_true(n > 299000);
	/* Plain HTTP on a TLS port, and a handshake that never goes on. */
	assert_null(strstr(ask(&s.world, "GET /healthz HTTP/1.1\r\n" HOST "\r\n"), "HTTP"));
	start(&hasty, (struct net_http_limits){.header_ms = 200}, s.server);
	assert_string_equal(ask(&hasty, ""), "");
	stop(&hasty);
	secured_stop(&s);
}

static void errors_that_a_handler_leaves_are_not_the_connections(void **state)
{
	static const char question[] = "GET /errors HTTP/1.1\r\n", rest[] = HOST "\r\n";
	struct secured s;

	(void)state;
	secured_start(&s);
	for (int i = 0; i < 3; i++) {
		char reply[1024] = "";
		size_t got = 0;

		assert_int_equal(SSL_write(s.ssl, question, sizeof(question) - 1),
				 (int)sizeof(question) - 1);
		cairn_sleep_ms(20); /* it has to ask for more, and to wait */
		assert_int_equal(SSL_write(s.ssl, rest, sizeof(rest) - 1), (int)sizeof(rest) - 1);
		assert_int_equal(SSL_read_ex(s.ssl, reply, sizeof(reply) - 1, &got), 1);
		assert_status(reply, 200);
	}
	secured_stop(&s);
}

static void ask_whose(struct secured *s, const char *name)
{
	static const char question[] = "GET /whose HTTP/1.1\r\n" HOST "\r\n";
	char reply[1024] = "";
	size_t got = 0;

	assert_int_equal(SSL_write(s->ssl, question, sizeof(question) - 1),
			 (int)sizeof(question) - 1);
	assert_int_equal(SSL_read_ex(s->ssl, reply, sizeof(reply) - 1, &got), 1);
	assert_non_null(strstr(reply, "\r\n\r\n"));
	assert_string_equal(strstr(reply, "\r\n\r\n") + 4, name);
}

static void a_certificate_counts_as_long_as_its_authority(void **state)
{
	struct tls_pair other;
	struct secured s;
	char byte;

	(void)state;
	secured_start_with(&s, true);
	other = tls_pair_make(&(struct tls_pair_spec){"other", NULL, NULL, -3600, 3600});
	ask_whose(&s, "h");
	tls_cert_write(s.certs.dir, "crt", &s.certs.leaf); /* the same once more */
	assert_int_equal(net_tls_reload(s.server, NULL), 0);
	ask_whose(&s, "h");
	/* The authority's certificate is renewed: those that it signed are good. */
	X509_gmtime_adj(X509_getm_notAfter(s.certs.ca.cert), 7200);
	assert_true(X509_sign(s.certs.ca.cert, s.certs.ca.key, EVP_sha256()) > 0);
	tls_cert_write(s.certs.dir, "ca", &s.certs.ca);
	assert_int_equal(net_tls_reload(s.server, NULL), 1);
	ask_whose(&s, "h");
	ask_whose(&s, "h");
	tls_cert_write(s.certs.dir, "ca", &other);
	assert_int_equal(net_tls_reload(s.server, NULL), 1);
	ask_whose(&s, "nobody");
	assert_int_equal(SSL_read(s.ssl, &byte, 1), 0); /* and the connection is closed */
	tls_pair_done(&other);
	secured_stop(&s);
}

static void key_updates_have_a_limit(void **state)
{
	struct secured s;
	int fd;

	(void)state;
	secured_start(&s);
	fd = overload_dial(2, s.world.port);
	assert_true(overload_key_updates(fd, "http/1.1", 20000));
	close(fd);
	secured_stop(&s);
}

static void the_limits_above_are_counted(void **state)
{
	(void)state;
	assert_limits_counted(NET_LIMIT_HANDSHAKE_TIME, NET_LIMIT_FIRST_BYTE_TIME,
			      NET_LIMIT_HEADER_TIME, NET_LIMIT_HEADER_BYTES, NET_LIMIT_REQUEST_TIME,
			      NET_LIMIT_REQUESTS, NET_LIMIT_MESSAGE_BYTES, NET_LIMIT_STALL_TIME,
			      NET_LIMIT_KEY_UPDATES, NET_LIMIT_CERTIFICATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_find_their_handlers),
		cmocka_unit_test(readiness_follows_the_role),
		cmocka_unit_test(requests_may_follow_one_another),
		cmocka_unit_test(a_reply_that_fails_half_way_does_not_look_whole),
		cmocka_unit_test(a_peer_that_is_slow_or_large_is_cut_off),
		cmocka_unit_test(a_peer_that_reads_nothing_stops_its_handler_only),
		cmocka_unit_test(connections_above_the_limit_are_closed),
		cmocka_unit_test(a_connection_serves_so_many_requests),
		cmocka_unit_test(a_drain_ends_idle_connections_and_cuts_the_rest),
		cmocka_unit_test(the_same_works_over_tls),
		cmocka_unit_test(a_certificate_counts_as_long_as_its_authority),
		cmocka_unit_test(errors_that_a_handler_leaves_are_not_the_connections),
		cmocka_unit_test(key_updates_have_a_limit),
		cmocka_unit_test(the_limits_above_are_counted),
	};

	return cmocka_run_group_tests_name("net/http", tests, NULL, NULL);
}
