/* SPDX-License-Identifier: Apache-2.0 */

/* The four kinds of calls, statuses and metadata, over unix and over TLS. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "grpc_fixture.h"

static int unary(struct grpc_fixture *f, const char *path, const char *text, char out[64],
		 struct cairn_err *err)
{
	struct net_rpc_options options = grpc_to(path);
	cairn_auto_free uint8_t *data = NULL;
	size_t n = 0;
	int rc = net_rpc_unary(f->channel, &options, text, strlen(text), &data, &n, err);

	if (rc == 0) {
		assert_true(n < 64);
		memcpy(out, data, n);
		out[n] = '\0';
	}
	return rc;
}

static void a_unary_call_gives_its_answer(void **state)
{
	struct cairn_err err = {0};
	char out[64];

	assert_ok(unary(*state, "/t.T/Echo", "hello", out, &err), &err);
	assert_string_equal(out, "hello");
	assert_ok(unary(*state, "/t.T/Echo", "", out, &err), &err);
	assert_string_equal(out, "");
	assert_ok(unary(*state, "/t.T/Quick", "at once", out, &err), &err);
	assert_string_equal(out, "at once");
}

static void a_status_comes_with_text_and_details(void **state)
{
	struct grpc_fixture *f = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = grpc_to("/t.T/Fail");
	struct cairn_err err = {0};
	const uint8_t *data;
	const char *details;
	size_t n;

	assert_ok(net_rpc_start(f->channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, "", 0, true, &err), &err);
	assert_code(net_rpc_recv(rpc, &data, &n, &err), CAIRN_PRECONDITION);
	assert_string_equal(err.msg, "größer als 100%\nzwei");
	details = net_rpc_trailer(rpc, "grpc-status-details-bin", &n);
	assert_non_null(details);
	assert_int_equal(n, 2);
	assert_memory_equal(details, "\x08\x09", 2);
}

static void an_unknown_method_is_unimplemented(void **state)
{
	struct cairn_err err = {0};
	char out[64];

	assert_code(unary(*state, "/t.T/Nothing", "", out, &err), CAIRN_UNIMPLEMENTED);
	assert_code(unary(*state, "/x.Y/Z", "", out, &err), CAIRN_UNIMPLEMENTED);
}

static void metadata_goes_both_ways(void **state)
{
	struct grpc_fixture *f = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	const struct net_metadata_entry entries[] = {
		{"x-echo", "plain text", 10},
		{"x-echo-bin", "\0\xff\x01", 3},
	};
	struct net_rpc_options options = grpc_to("/t.T/Echo");
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	options.metadata = entries;
	options.n_metadata = ARRAY_LEN(entries);
	assert_ok(net_rpc_start(f->channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, "x", 1, true, &err), &err);
	assert_ok(net_rpc_headers(rpc, &err), &err);
	assert_string_equal(net_rpc_metadata(rpc, "x-echo", &n), "plain text");
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 0);
	assert_memory_equal(net_rpc_trailer(rpc, "x-echo-bin", &n), "\0\xff\x01", 3);
	assert_int_equal(n, 3);
}

static void illegal_metadata_is_refused_before_sending(void **state)
{
	static const struct net_metadata_entry bad[] = {
		{"Upper", "x", 1},        {"", "x", 1},      {"a b", "x", 1},
		{":path", "x", 1},        {"te", "x", 1},    {"grpc-x", "x", 1},
		{"fine", "new\nline", 8}, {"fine", " x", 2}, {"fine", "\xc3\xa4", 2},
	};
	struct grpc_fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct net_rpc_options options = grpc_to("/t.T/Echo");
		struct net_rpc *rpc = NULL;
		struct cairn_err err = {0};

		options.metadata = &bad[i];
		options.n_metadata = 1;
		assert_code(net_rpc_start(f->channel, &options, &rpc, &err), CAIRN_INVALID);
		assert_null(rpc);
	}
}

static void a_server_stream_comes_whole_and_in_order(void **state)
{
	static const char *const counts[] = {"0", "1", "50000"};
	static const uint64_t numbers[] = {0, 1, 50000};
	struct grpc_fixture *f = *state;

	for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
		cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
		struct net_rpc_options options = grpc_to("/t.T/Count");
		struct cairn_err err = {0};
		const uint8_t *data;
		uint64_t i = 0, got;
		size_t n;
		int rc;

		assert_ok(net_rpc_start(f->channel, &options, &rpc, &err), &err);
		assert_ok(net_rpc_send(rpc, counts[k], strlen(counts[k]), true, &err), &err);
		while ((rc = net_rpc_recv(rpc, &data, &n, &err)) == 1) {
			assert_int_equal(n, sizeof(got));
			memcpy(&got, data, n);
			assert_int_equal(got, i);
			i++;
		}
		assert_ok(rc, &err);
		assert_int_equal(i, numbers[k]);
	}
}

static void a_client_stream_is_taken_to_its_end(void **state)
{
	struct grpc_fixture *f = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = grpc_to("/t.T/Sum");
	cairn_auto_free uint8_t *big = cairn_calloc(1, 1 << 20);
	struct cairn_err err = {0};
	const uint8_t *data;
	uint64_t total = 0, got;
	size_t n;

	assert_ok(net_rpc_start(f->channel, &options, &rpc, &err), &err);
	for (size_t i = 0; i < 200; i++) {
		size_t part = i * i * 17 % 100000;

		assert_ok(net_rpc_send(rpc, big, part, false, &err), &err);
		total += part;
	}
	assert_ok(net_rpc_send_end(rpc, &err), &err);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	memcpy(&got, data, sizeof(got));
	assert_int_equal(got, total);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 0);
}

static void a_bidi_call_talks_in_turns(void **state)
{
	struct grpc_fixture *f = *state;
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_rpc_options options = grpc_to("/t.T/Chat");
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	assert_ok(net_rpc_start(f->channel, &options, &rpc, &err), &err);
	for (uint32_t i = 0; i < 500; i++) {
		assert_ok(net_rpc_send(rpc, &i, sizeof(i), false, &err), &err);
		assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
		assert_memory_equal(data, &i, sizeof(i));
	}
	assert_ok(net_rpc_send_end(rpc, &err), &err);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 0);
}

static void messages_up_to_the_limit_pass_and_larger_ones_do_not(void **state)
{
	struct grpc_fixture *f = *state;
	const size_t limit = 4U << 20;
	cairn_auto_free uint8_t *big = cairn_alloc(limit + 1);
	struct net_rpc_options options = grpc_to("/t.T/Echo");

	for (size_t i = 0; i <= limit; i++)
		big[i] = (uint8_t)(i * 2654435761U >> 13);
	for (size_t over = 0; over < 2; over++) {
		cairn_auto_free uint8_t *data = NULL;
		struct cairn_err err = {0};
		size_t n = 0;
		int rc = net_rpc_unary(f->channel, &options, big, limit + over, &data, &n, &err);

		if (over) {
			assert_code(rc, CAIRN_NO_SPACE);
		} else {
			assert_ok(rc, &err);
			assert_int_equal(n, limit);
			assert_memory_equal(data, big, limit);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_unary_call_gives_its_answer),
		cmocka_unit_test(a_status_comes_with_text_and_details),
		cmocka_unit_test(an_unknown_method_is_unimplemented),
		cmocka_unit_test(metadata_goes_both_ways),
		cmocka_unit_test(illegal_metadata_is_refused_before_sending),
		cmocka_unit_test(a_server_stream_comes_whole_and_in_order),
		cmocka_unit_test(a_client_stream_is_taken_to_its_end),
		cmocka_unit_test(a_bidi_call_talks_in_turns),
		cmocka_unit_test(messages_up_to_the_limit_pass_and_larger_ones_do_not),
	};
	int failed = cmocka_run_group_tests_name("net/grpc calls, unix", tests,
						 grpc_group_start_unix, grpc_group_stop);

	return failed + cmocka_run_group_tests_name("net/grpc calls, TLS", tests,
						    grpc_group_start_tls, grpc_group_stop);
}
