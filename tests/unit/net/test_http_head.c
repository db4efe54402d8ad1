/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/http/http_chunk.h"
#include "net/http/http_head.h"

#define HOST "Host: h\r\n"

static int parse(const char *text, char *copy, size_t cap, struct net_http_head *head)
{
	size_t n = strlen(text);

	assert_true(n < cap);
	memcpy(copy, text, n + 1);
	assert_int_equal(net_http_head_end(copy, n, 0), n);
	return net_http_head_parse(copy, n, head);
}

static void a_request_comes_apart(void **state)
{
	struct net_http_head head;
	char copy[1024], value[32];

	(void)state;
	assert_int_equal(parse("POST /a%20b/c?x=1&long=a%2Bb+c&empty HTTP/1.1\r\nHOST: h:80\r\n"
			       "Content-Length:  12 \r\nX-Two: a\r\nX-Two: b\r\n\r\n",
			       copy, sizeof(copy), &head),
			 0);
	assert_string_equal(head.method, "POST");
	assert_string_equal(head.path, "/a b/c");
	assert_string_equal(head.query, "x=1&long=a%2Bb+c&empty");
	assert_int_equal(head.minor, 1);
	assert_int_equal(head.length, 12);
	assert_false(head.chunked);
	assert_true(head.keep_alive);
	assert_string_equal(net_http_head_field(&head, "host"), "h:80");
	assert_string_equal(net_http_head_field(&head, "x-two"), "a");
	assert_null(net_http_head_field(&head, "x-three"));
	assert_true(net_http_query_get(head.query, "long", value, sizeof(value)));
	assert_string_equal(value, "a+b c");
	assert_true(net_http_query_get(head.query, "empty", value, sizeof(value)));
	assert_string_equal(value, "");
	assert_false(net_http_query_get(head.query, "lon", value, sizeof(value)));
	assert_false(net_http_query_get(head.query, "long", value, 5));
	assert_false(net_http_query_get("a=%4", "a", value, sizeof(value)));
	assert_false(net_http_query_get("a=%00", "a", value, sizeof(value)));
}

static void heads_are_taken_or_refused_with_a_status(void **state)
{
	static const struct {
		const char *text;
		int status;
	} cases[] = {
		{"GET / HTTP/1.1\r\n" HOST "\r\n", 0},
		{"GET / HTTP/1.0\r\n\r\n", 0},
		{"GET http://h/p HTTP/1.1\r\n" HOST "\r\n", 0},
		{"GET http://h HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET / HTTP/1.1\r\n\r\n", 400}, /* no host */
		{"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
		{"GET / HTTP/1.1\r\n" HOST "Authorization: a\r\nauthorization: b\r\n\r\n", 400},
		{"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
		{"GET / HTTP/1.2\r\n" HOST "\r\n", 505},
		{"GET /  HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /\r\n" HOST "\r\n", 400},
		{"GET\r\n\r\n", 400},
		{"\r\n\r\n", 400},
		{"G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET x HTTP/1.1\r\n" HOST "\r\n", 400},
		{"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /a%0 HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /a%00b HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /a\tb HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400},      /* space before the colon */
		{"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400}, /* folded */
		{"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n" HOST ": v\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n" HOST "A: b\x01\r\n\r\n", 400},
		{"GET / HTTP/1.1\n" HOST "\r\n", 400}, /* line feed alone */
		{"GET / HTTP/1.1\r\n" HOST "A: b\nB: c\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n", 0},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		{"PUT / HTTP/1.1\r\n" HOST
		 "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		 400},
		{"PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		/* Ways that have hidden a request from one of two servers. */
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5_0\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5.0\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST " Content-Length: 5\r\n\r\n", 400},
		{"PUT / HTTP/1.1\r\n Content-Length: 5\r\n" HOST "\r\n", 400},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding:\tchunked\r\n\r\n", 0},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 501},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked;q=1\r\n\r\n", 501},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n", 501},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: \x0b"
		 "chunked\r\n\r\n",
		 400},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", 501},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n"
		 "Transfer-Encoding: chunked\r\n\r\n",
		 400},
		{"PUT / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n"
		 "Content-Length: 0\r\n\r\n",
		 400},
		{"PUT / HTTP/1.1\r\n" HOST "A: b\rTransfer-Encoding: chunked\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n" HOST "Host:\r\n\r\n", 400},
		{"GET / HTTP/1.1 \r\n" HOST "\r\n", 505},
		{"GET / http/1.1\r\n" HOST "\r\n", 400},
		{"GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400},
		{" GET / HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400},
		{"GET //a/../b HTTP/1.1\r\n" HOST "\r\n", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct net_http_head head;
		char copy[1024];
		int status = parse(cases[i].text, copy, sizeof(copy), &head);

		if (status != cases[i].status)
			fail_msg("%d, want %d: %s", status, cases[i].status, cases[i].text);
	}
}

static void limits_have_their_own_status(void **state)
{
	char text[16384];
	struct net_http_head head;
	size_t n;

	(void)state;
	n = (size_t)snprintf(text, sizeof(text), "GET /");
	memset(text + n, 'a', NET_HTTP_LINE_MAX);
	n += NET_HTTP_LINE_MAX;
	n += (size_t)snprintf(text + n, sizeof(text) - n, " HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(net_http_head_parse(text, n, &head), 414);

	for (size_t fields = NET_HTTP_FIELDS_MAX; fields <= NET_HTTP_FIELDS_MAX + 1; fields++) {
		n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST);
		for (size_t i = 1; i < fields; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "A: b\r\n");
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\n");
		assert_int_equal(net_http_head_parse(text, n, &head),
				 fields <= NET_HTTP_FIELDS_MAX ? 0 : 431);
	}
}

static void connections_end_when_either_side_says_so(void **state)
{
	static const struct {
		const char *text;
		bool keep;
	} cases[] = {
		{"GET / HTTP/1.1\r\n" HOST "\r\n", true},
		{"GET / HTTP/1.1\r\n" HOST "Connection: foo , CLOSE\r\n\r\n", false},
		{"GET / HTTP/1.1\r\n" HOST "Connection: closed\r\n\r\n", true},
		{"GET / HTTP/1.1\r\n" HOST "Connection: x\r\nConnection: close\r\n\r\n", false},
		{"GET / HTTP/1.0\r\n\r\n", false},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct net_http_head head;
		char copy[256];

		assert_int_equal(parse(cases[i].text, copy, sizeof(copy), &head), 0);
		assert_int_equal(head.keep_alive, cases[i].keep);
	}
}

static void the_end_of_a_head_is_found_in_pieces(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\n\r\nrest";
	size_t seen = 0;

	(void)state;
	for (size_t n = 1; n < 18; n++) {
		assert_int_equal(net_http_head_end(text, n, seen), 0);
		seen = n;
	}
	assert_int_equal(net_http_head_end(text, 18, seen), 18);
	assert_int_equal(net_http_head_end(text, sizeof(text) - 1, 0), 18);
}

static int feed_all(const char *text, size_t step, struct cairn_buf *body, size_t *ret_used)
{
	struct net_http_chunks chunks = {0};
	size_t n = strlen(text), at = 0;
	int status = 0;

	while (at < n && status == 0) {
		size_t piece = n - at < step ? n - at : step, used;

		status = net_http_chunks_feed(&chunks, text + at, piece, body, &used);
		at += used;
		if (status == 0)
			assert_int_equal(used, piece);
	}
	*ret_used = at;
	return status;
}

static void chunked_bodies_decode_in_pieces_of_any_size(void **state)
{
	static const struct {
		const char *text;
		int status;
		const char *body;
		size_t rest;
	} cases[] = {
		{"5\r\nhello\r\n0\r\n\r\n", 1, "hello", 0},
		{"0\r\n\r\nGET", 1, "", 3},
		{"3;ext=\"x\"\r\nabc\r\nA\r\n0123456789\r\n00\r\nT: v\r\nU: w\r\n\r\n", 1,
		 "abc0123456789", 0},
		{"5\r\nhel", 0, "hel", 0},
		{"\r\n", 400, NULL, 0},
		{"5\nhello", 400, NULL, 0},
		{"5\r\nhello!\r\n", 400, NULL, 0},
		{"-1\r\n", 400, NULL, 0},
		{"0x5\r\nhello\r\n", 400, NULL, 0},
		{"5 \r\nhello\r\n", 400, NULL, 0},
		{"1000000000000000\r\n", 400, NULL, 0},
		{"ff\r\n0123456789012345678901234567890123456789\r\n", 413, NULL, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t step = 1; step < 8; step++) {
			cairn_auto_buf struct cairn_buf body = CAIRN_BUF_INIT(32);
			size_t used;
			int status = feed_all(cases[i].text, step, &body, &used);

			if (status != cases[i].status)
				fail_msg("%d, want %d: %s", status, cases[i].status, cases[i].text);
			if (!cases[i].body)
				continue;
			assert_int_equal(body.len, strlen(cases[i].body));
			assert_memory_equal(body.data ? (char *)body.data : "", cases[i].body,
					    body.len);
			assert_int_equal(strlen(cases[i].text) - used, cases[i].rest);
		}
	}
}

static void what_is_thrown_away_is_bounded_too(void **state)
{
	cairn_auto_buf struct cairn_buf body = CAIRN_BUF_INIT(32);
	char text[NET_HTTP_TRAILERS_MAX + 64];
	size_t used;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "1;", 2);
	text[NET_HTTP_CHUNK_LINE_MAX + 1] = 0;
	assert_int_equal(feed_all(text, 100, &body, &used), 400);
	memset(text, 'x', sizeof(text));
	memcpy(text, "0\r\n", 3);
	text[sizeof(text) - 1] = 0;
	assert_int_equal(feed_all(text, 100, &body, &used), 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_comes_apart),
		cmocka_unit_test(heads_are_taken_or_refused_with_a_status),
		cmocka_unit_test(limits_have_their_own_status),
		cmocka_unit_test(connections_end_when_either_side_says_so),
		cmocka_unit_test(the_end_of_a_head_is_found_in_pieces),
		cmocka_unit_test(chunked_bodies_decode_in_pieces_of_any_size),
		cmocka_unit_test(what_is_thrown_away_is_bounded_too),
	};

	return cmocka_run_group_tests_name("net/http_head", tests, NULL, NULL);
}
