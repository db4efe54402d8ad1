/* SPDX-License-Identifier: Apache-2.0 */

/* Requests that are unusual and legal, or wrong: each has its one answer. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "grpc_fixture.h"
#include "grpc_raw.h"

#define MESSAGE   "\0\0\0\0\2hi"
#define MESSAGE_N 7

/* `value` NULL leaves a field out that every request has. */
struct change {
	const char *name, *value;
};

#define CHANGES_MAX 4

struct request {
	struct change changes[CHANGES_MAX]; /* of the usual fields, or more of them */
	const char *body;
	size_t body_n;
	const char *expect; /* a line of the reply's fields */
};

static const struct change usual[] = {
	{":method", "POST"},    {":scheme", "http"}, {":path", "/t.T/Echo"},
	{":authority", "here"}, {"te", "trailers"},  {"content-type", "application/grpc"},
};

static const struct change *find_change(const struct request *r, const char *name)
{
	for (size_t i = 0; i < CHANGES_MAX && r->changes[i].name; i++)
		if (strcmp(r->changes[i].name, name) == 0)
			return &r->changes[i];
	return NULL;
}

static bool is_usual(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (strcmp(usual[i].name, name) == 0)
			return true;
	return false;
}

static size_t make_block(const struct request *r, uint8_t block[2048])
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
		const struct change *change = find_change(r, usual[i].name);

		if (!change || change->value)
			n += raw_field(block + n, usual[i].name,
				       change ? change->value : usual[i].value);
	}
	for (size_t i = 0; i < CHANGES_MAX && r->changes[i].name; i++)
		if (!is_usual(r->changes[i].name))
			n += raw_field(block + n, r->changes[i].name, r->changes[i].value);
	return n;
}

static void ask(const char *path, const struct request *r, struct raw_reply *reply)
{
	uint8_t block[2048];
	struct raw raw;

	raw_greet(&raw, path);
	raw_put_frame(&raw, RAW_HEADERS, RAW_END_HEADERS | (r->body ? 0 : RAW_END_STREAM), 1, block,
		      (uint32_t)make_block(r, block));
	if (r->body)
		raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, 1, r->body, (uint32_t)r->body_n);
	raw_read_answer(&raw, reply);
	close(raw.fd);
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (; *text; text = strchr(text, '\n') + 1)
		if (strncmp(text, line, n) == 0 && text[n] == '\n')
			return true;
	return false;
}

static size_t count_of(const char *text, const char *word)
{
	size_t n = 0;

	while ((text = strstr(text, word))) {
		text += strlen(word);
		n++;
	}
	return n;
}

static void check(void **state, const struct request *cases, size_t n)
{
	const struct grpc_fixture *f = *state;

	for (size_t i = 0; i < n; i++) {
		struct raw_reply reply;

		ask(f->path, &cases[i], &reply);
		if (!has_line(reply.text, cases[i].expect))
			fail_msg("case %zu: no '%s' in:\n%s", i, cases[i].expect, reply.text);
		assert_in_range(count_of(reply.text, "grpc-status:"), 0, 1);
	}
}

#define WITH(...)  .changes = {__VA_ARGS__}
#define BODY(text) .body = (text), .body_n = sizeof(text) - 1
#define OK         "grpc-status: 0"

static void timeouts_of_all_kinds(void **state)
{
	static const struct request cases[] = {
		{WITH({"grpc-timeout", "99999999H"}), BODY(MESSAGE), OK},
		{WITH({"grpc-timeout", "1H"}), BODY(MESSAGE), OK},
		{WITH({"grpc-timeout", "00000001H"}), BODY(MESSAGE), OK},
		{WITH({"grpc-timeout", "0n"}), BODY(MESSAGE), "grpc-status: 4"},
		{WITH({"grpc-timeout", "0H"}), BODY(MESSAGE), "grpc-status: 4"},
		{WITH({"grpc-timeout", "0S"}, {":path", "/t.T/Quick"}), BODY(MESSAGE),
		 "grpc-status: 4"},
		{WITH({"grpc-timeout", "0m"}, {":path", "/t.T/Chat"}), BODY(MESSAGE),
		 "grpc-status: 4"},
		{WITH({"grpc-timeout", "1n"}, {":path", "/t.T/Wait"}), BODY(MESSAGE),
		 "grpc-status: 4"},
		{WITH({"grpc-timeout", "50m"}, {":path", "/t.T/Wait"}), BODY(MESSAGE),
		 "grpc-status: 4"},
		{WITH({"grpc-timeout", ""}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "1"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "S"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "1s"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "-1S"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "+1S"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "1.5S"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"grpc-timeout", "123456789S"}), BODY(MESSAGE), "grpc-status: 13"},
	};

	check(state, cases, ARRAY_LEN(cases));
}

static void what_is_no_grpc_gets_an_http_status(void **state)
{
	static const struct request cases[] = {
		{WITH({":method", "GET"}), BODY(MESSAGE), ":status: 405"},
		{WITH({":method", "PUT"}), BODY(MESSAGE), ":status: 405"},
		{WITH({":method", "post"}), BODY(MESSAGE), ":status: 405"},
		{WITH({"content-type", NULL}), BODY(MESSAGE), ":status: 415"},
		{WITH({"content-type", ""}), BODY(MESSAGE), ":status: 415"},
		{WITH({"content-type", "application/json"}), BODY(MESSAGE), ":status: 415"},
		{WITH({"content-type", "application/grpc-web"}), BODY(MESSAGE), ":status: 415"},
		{WITH({"content-type", "application/grpcx"}), BODY(MESSAGE), ":status: 415"},
		{WITH({"content-type", "application/grpc+proto"}), BODY(MESSAGE), OK},
		{WITH({"content-type", "application/grpc+anything"}), BODY(MESSAGE), OK},
		{WITH({"content-type", "application/grpc;charset=utf-8"}), BODY(MESSAGE), OK},
		{WITH({"te", NULL}), BODY(MESSAGE), OK},
		{WITH({":authority", NULL}, {"host", "there"}), BODY(MESSAGE), OK},
	};

	check(state, cases, ARRAY_LEN(cases));
}

static void methods_are_found_by_their_exact_path(void **state)
{
	static const struct request cases[] = {
		{WITH({":path", "/t.T/echo"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "/t.T/Echo/"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "//t.T/Echo"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "/t.T/Echo?a=b"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "/t.T/%45cho"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "/t.T"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "/"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({":path", "/t.T/"}), .expect = "grpc-status: 12"},
		{WITH({":path", "/t.T/None"}), .expect = "grpc-accept-encoding: identity,gzip"},
	};

	check(state, cases, ARRAY_LEN(cases));
}

static void metadata_is_taken_as_it_may_be_written(void **state)
{
	static const struct request cases[] = {
		{WITH({"x-echo", "a, b;c=d"}), BODY(MESSAGE), "x-echo: a, b;c=d"},
		{WITH({"x-echo", ""}), BODY(MESSAGE), "x-echo: "},
		/* The first of several counts where one is asked for. */
		{WITH({"x-echo", "one"}, {"x-echo", "two"}), BODY(MESSAGE), "x-echo: one"},
		{WITH({"x-echo-bin", "YQ"}), BODY(MESSAGE), "x-echo-bin: YQ"},
		{WITH({"x-echo-bin", "YQ=="}), BODY(MESSAGE), "x-echo-bin: YQ"},
		{WITH({"x-echo-bin", "YWI="}), BODY(MESSAGE), "x-echo-bin: YWI"},
		{WITH({"x-echo-bin", "YWJj"}), BODY(MESSAGE), "x-echo-bin: YWJj"},
		{WITH({"x-echo-bin", ""}), BODY(MESSAGE), "x-echo-bin: "},
		{WITH({"x-echo-bin", "YQ,Yg=="}), BODY(MESSAGE), "x-echo-bin: YQ"},
		{WITH({"x-echo-bin", "YQ, Yg"}), BODY(MESSAGE), OK},
		{WITH({"x-other-bin", ",,"}), BODY(MESSAGE), OK},
		{WITH({"x-echo-bin", "Y"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-echo-bin", "YQ="}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-echo-bin", "Y==="}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-echo-bin", "===="}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-echo-bin", "YQ==YQ"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-echo-bin", "Y Q"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-echo-bin", "-_"}), BODY(MESSAGE), "grpc-status: 13"},
		{WITH({"x-other-bin", "*"}), BODY(MESSAGE), "grpc-status: 13"},
		/* A name that is all suffix is no binary one. */
		{WITH({"-bin", "*"}), BODY(MESSAGE), OK},
	};

	check(state, cases, ARRAY_LEN(cases));
}

static void encodings_are_accepted_or_refused_by_the_rules(void **state)
{
	/* "hi", and the same cut off. */
	static const char gzip[] =
		"\1\0\0\0\x16\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcb\xc8\x04\0\xac\x2a"
		"\x93\xd8\x02\0\0\0";
	const struct request cases[] = {
		{WITH({"grpc-encoding", "identity"}), BODY(MESSAGE), OK},
		{WITH({"grpc-encoding", "gzip"}), BODY(MESSAGE), OK}, /* none need be compressed */
		{WITH({"grpc-encoding", "gzip"}), .body = gzip, .body_n = sizeof(gzip) - 1, OK},
		{.body = gzip, .body_n = sizeof(gzip) - 1, .expect = "grpc-status: 13"},
		{WITH({"grpc-encoding", "identity"}), .body = gzip, .body_n = sizeof(gzip) - 1,
		 "grpc-status: 13"},
		{WITH({"grpc-encoding", "gzip"}), BODY("\1\0\0\0\2hi"), "grpc-status: 13"},
		{WITH({"grpc-encoding", "gzip"}), BODY("\1\0\0\0\0"), "grpc-status: 13"},
		{WITH({"grpc-encoding", "snappy"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({"grpc-encoding", "snappy"}), BODY(MESSAGE),
		 "grpc-accept-encoding: identity,gzip"},
		{WITH({"grpc-encoding", "GZIP"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({"grpc-encoding", "gzip,identity"}), BODY(MESSAGE), "grpc-status: 12"},
		{WITH({"grpc-encoding", ""}), BODY(MESSAGE), "grpc-status: 12"},
	};

	check(state, cases, ARRAY_LEN(cases));
}

static void a_unary_method_takes_exactly_one_message(void **state)
{
	static const struct request cases[] = {
		{.expect = "grpc-status: 13"},
		{.body = "", .body_n = 0, .expect = "grpc-status: 13"},
		{BODY("\0"), .expect = "grpc-status: 13"},
		{BODY("\0\0\0\0"), .expect = "grpc-status: 13"},
		{BODY("\0\0\0\0\3hi"), .expect = "grpc-status: 13"},
		{BODY("\0\0\0\0\2hi\0"), .expect = "grpc-status: 13"},
		{BODY(MESSAGE MESSAGE), .expect = "grpc-status: 13"},
		{BODY("\2\0\0\0\2hi"), .expect = "grpc-status: 13"},
		{BODY("\xff\0\0\0\2hi"), .expect = "grpc-status: 13"},
		{BODY("\0\xff\xff\xff\xffhi"), .expect = "grpc-status: 8"},
		{BODY("\0\0\0\0\0"), .expect = OK},
		/* A stream of none is fine. */
		{WITH({":path", "/t.T/Sum"}), .expect = OK},
		{WITH({":path", "/t.T/Chat"}), .expect = OK},
		{WITH({":path", "/t.T/Chat"}), BODY("\0\0\0"), "grpc-status: 13"},
	};

	check(state, cases, ARRAY_LEN(cases));
}

/* HTTP/2 itself forbids these: the stream or the connection ends without an answer. */
static void fields_that_http2_forbids_get_no_answer(void **state)
{
	static const struct request cases[] = {
		{WITH({"X-Upper", "a"}), BODY(MESSAGE)},
		{WITH({"connection", "close"}), BODY(MESSAGE)},
		{WITH({"transfer-encoding", "chunked"}), BODY(MESSAGE)},
		{WITH({"te", "gzip"}), BODY(MESSAGE)},
		{WITH({":other", "a"}), BODY(MESSAGE)},
		{WITH({":path", ""}), BODY(MESSAGE)},
		{WITH({":path", NULL}), BODY(MESSAGE)},
		{WITH({":method", NULL}), BODY(MESSAGE)},
		{WITH({":authority", NULL}), BODY(MESSAGE)}, /* and no host */
		{WITH({"content-length", "9999"}), BODY(MESSAGE)},
		{WITH({"x-bad", "a\x01"}), BODY(MESSAGE)},
		{WITH({"", "a"}), BODY(MESSAGE)},
	};
	const struct grpc_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct raw_reply reply;

		ask(f->path, &cases[i], &reply);
		if (strstr(reply.text, OK) || (reply.resets == 0 && !reply.closed))
			fail_msg("case %zu was answered: %s", i, reply.text);
	}
}

/* A request may end with trailers, in any number of pieces. */
static void a_request_may_come_in_pieces_and_end_with_trailers(void **state)
{
	const struct grpc_fixture *f = *state;
	struct raw_reply reply;
	uint8_t trailers[64];
	struct raw raw;

	raw_greet(&raw, f->path);
	raw_put_request(&raw, 1, "/t.T/Echo");
	for (size_t i = 0; i < MESSAGE_N; i++)
		raw_put_frame(&raw, RAW_DATA, 0, 1, &MESSAGE[i], 1);
	raw_put_frame(&raw, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, 1, trailers,
		      (uint32_t)raw_field(trailers, "x-tail", "t"));
	raw_read_answer(&raw, &reply);
	assert_non_null(strstr(reply.text, "grpc-status: 0\n"));
	assert_int_equal(reply.data, MESSAGE_N);
	close(raw.fd);
}

/* The caller of a stream leaves at the moment that it half-closes, or right after:
 * the handler ends, and the connection serves the next. */
static void who_leaves_when_half_closing_disturbs_nobody(void **state)
{
	static const struct request last = {WITH({"x-echo-bin", "bGFzdA"})};
	struct grpc_fixture *f = *state;
	struct raw_reply reply;
	uint8_t block[2048];
	struct raw raw;

	raw_greet(&raw, f->path);
	for (uint32_t id = 1; id < 400; id += 2) {
		raw_put_request(&raw, id, id % 4 == 1 ? "/t.T/Wait" : "/t.T/Chat");
		raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, id, MESSAGE, MESSAGE_N);
		raw_put_frame(&raw, RAW_RST_STREAM, 0, id, "\0\0\0\x08", 4);
	}
	raw_flush(&raw);
	for (int i = 0; i < 6000 && atomic_load(&f->handlers) > 0; i++)
		cairn_sleep_ms(10);
	assert_int_equal(atomic_load(&f->handlers), 0);
	raw_put_frame(&raw, RAW_HEADERS, RAW_END_HEADERS, 401, block,
		      (uint32_t)make_block(&last, block));
	raw_put_frame(&raw, RAW_DATA, RAW_END_STREAM, 401, MESSAGE, MESSAGE_N);
	raw_read_until(&raw, &reply, "x-echo-bin: bGFzdA\n");
	assert_false(reply.closed);
	assert_int_equal(reply.goaway, RAW_NO_GOAWAY);
	close(raw.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timeouts_of_all_kinds),
		cmocka_unit_test(what_is_no_grpc_gets_an_http_status),
		cmocka_unit_test(methods_are_found_by_their_exact_path),
		cmocka_unit_test(metadata_is_taken_as_it_may_be_written),
		cmocka_unit_test(encodings_are_accepted_or_refused_by_the_rules),
		cmocka_unit_test(a_unary_method_takes_exactly_one_message),
		cmocka_unit_test(fields_that_http2_forbids_get_no_answer),
		cmocka_unit_test(a_request_may_come_in_pieces_and_end_with_trailers),
		cmocka_unit_test(who_leaves_when_half_closing_disturbs_nobody),
	};

	return cmocka_run_group_tests_name("net/grpc requests", tests, grpc_group_start_unix,
					   grpc_group_stop);
}
