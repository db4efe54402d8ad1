/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_frame.h"

#include "cairntest.h"

#include <string.h>

#include <zlib.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "net/grpc/gunzip.h"
#include "net/outq.h"
#include "net/stream.h"

/* Runs all bytes through in pieces of `step` and writes the messages out, each
 * ended by a '|'. Returns the last event. */
static enum grpc_event run(struct grpc_deframer *d, const uint8_t *data, size_t n, size_t step,
			   char *out)
{
	enum grpc_event event = GRPC_MORE;
	size_t at = 0;

	for (size_t i = 0; i < n; i += step) {
		const uint8_t *piece = data + i, *body;
		size_t left = n - i < step ? n - i : step, part;

		while ((event = grpc_deframe(d, &piece, &left, &body, &part)) != GRPC_MORE) {
			if (event == GRPC_BODY) {
				memcpy(out + at, body, part);
				at += part;
			} else if (event == GRPC_END) {
				out[at++] = '|';
			} else if (event != GRPC_BEGIN) {
				return event;
			}
		}
	}
	out[at] = '\0';
	return event;
}

static void messages_are_found_however_the_bytes_are_cut(void **state)
{
	static const uint8_t bytes[] = "\0\0\0\0\5hello\0\0\0\0\0\1\0\0\0\3abc\0\0\0\0\1x";
	const size_t n = sizeof(bytes) - 1;

	(void)state;
	for (size_t step = 1; step <= n; step++) {
		struct grpc_deframer d;
		char out[64];

		grpc_deframer_init(&d, 5);
		assert_int_equal(run(&d, bytes, n, step, out), GRPC_MORE);
		assert_string_equal(out, "hello||abc|x|");
		assert_true(grpc_deframer_idle(&d));
	}
}

static void a_stream_that_ends_early_is_not_idle(void **state)
{
	static const uint8_t bytes[] = "\0\0\0\0\5hell";

	(void)state;
	for (size_t n = 1; n < sizeof(bytes); n++) {
		struct grpc_deframer d;
		char out[64];

		grpc_deframer_init(&d, 100);
		run(&d, bytes, n, n, out);
		assert_false(grpc_deframer_idle(&d));
	}
}

static void bad_flags_and_long_messages_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		enum grpc_event event;
	} cases[] = {
		{"\2\0\0\0\1", GRPC_BAD_FLAG},
		{"\xff\0\0\0\1", GRPC_BAD_FLAG},
		{"\0\0\0\0\x0b", GRPC_TOO_LARGE},
		{"\0\xff\xff\xff\xff", GRPC_TOO_LARGE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct grpc_deframer d;
		char out[64];

		grpc_deframer_init(&d, 10);
		assert_int_equal(run(&d, (const uint8_t *)cases[i].bytes, 5, 5, out),
				 cases[i].event);
	}
}

static void a_prefix_comes_back(void **state)
{
	static const uint32_t lengths[] = {0, 1, 255, 65536, 0x01020304, UINT32_MAX};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		uint8_t prefix[GRPC_PREFIX_BYTES];
		const uint8_t *at = prefix, *body;
		struct grpc_deframer d;
		size_t n = sizeof(prefix), part;

		grpc_prefix(prefix, lengths[i], i % 2);
		grpc_deframer_init(&d, UINT32_MAX);
		assert_int_equal(grpc_deframe(&d, &at, &n, &body, &part), GRPC_BEGIN);
		assert_int_equal(d.length, lengths[i]);
		assert_int_equal(d.compressed, i % 2);
	}
}

/* --- the queue of outgoing bytes --- */

static void put(struct net_outq *q, const char *text)
{
	uint8_t *at = net_outq_reserve(q, strlen(text) + 10);

	assert_non_null(at);
	memcpy(at, text, strlen(text));
	net_outq_commit(q, strlen(text));
}

static void a_queue_gives_back_what_was_put_in(void **state)
{
	struct net_outq q = {0};
	uint8_t written = 0, read = 0;
	uint32_t random = 1;
	size_t waiting = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint8_t out[3000];
		size_t n;

		random = random * 1664525 + 1013904223;
		n = random >> 16 & 2047;
		if (waiting < 300000 && random >> 31) {
			uint8_t *at = net_outq_reserve(&q, n + 100);

			assert_non_null(at);
			for (size_t k = 0; k < n; k++)
				at[k] = written++;
			net_outq_commit(&q, n);
			waiting += n;
		} else {
			n = n < waiting ? n : waiting;
			net_outq_take(&q, out, n);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(out[k], read++);
			waiting -= n;
		}
		assert_int_equal(q.bytes, waiting);
	}
	net_outq_done(&q);
}

static void a_kept_queue_can_be_read_again(void **state)
{
	struct net_outq q = {.keep = true};
	char out[32] = "";

	(void)state;
	put(&q, "hello ");
	put(&q, "world");
	net_outq_take(&q, (uint8_t *)out, 8);
	assert_true(net_outq_rewind(&q));
	assert_int_equal(q.bytes, 11);
	net_outq_take(&q, (uint8_t *)out, 11);
	assert_string_equal(out, "hello world");
	net_outq_forget(&q);
	assert_false(net_outq_rewind(&q));
	put(&q, "!");
	net_outq_take(&q, (uint8_t *)out, 1);
	assert_int_equal(out[0], '!');
	net_outq_done(&q);
}

static void a_cleared_queue_keeps_a_reservation_valid(void **state)
{
	struct net_outq q = {0};
	uint8_t *at;

	(void)state;
	put(&q, "old");
	at = net_outq_reserve(&q, 100);
	net_outq_clear(&q);
	memset(at, 'x', 100);
	net_outq_commit(&q, 100);
	assert_int_equal(q.bytes, 100);
	net_outq_done(&q);
}

/* --- gzip --- */

static size_t gzip(const uint8_t *data, size_t n, uint8_t *out, size_t cap)
{
	z_stream z = {0};

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)(uintptr_t)data;
	z.avail_in = (uInt)n;
	z.next_out = out;
	z.avail_out = (uInt)cap;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return cap - z.avail_out;
}

static void gzip_is_taken_up_to_the_limit(void **state)
{
	static uint8_t plain[100000], packed[110000];
	size_t n;

	(void)state;
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (uint8_t)(i * i >> 7);
	for (size_t len = 0; len <= sizeof(plain); len += 9999) {
		cairn_auto_free struct net_msg *msg = NULL, *none = NULL;
		struct cairn_err err = {0};

		n = gzip(plain, len, packed, sizeof(packed));
		assert_ok(net_gunzip(packed, n, len, &msg, &err), &err);
		assert_int_equal(msg->len, len);
		assert_memory_equal(msg->data, plain, len);
		if (len > 0)
			assert_code(net_gunzip(packed, n, len - 1, &none, &err), CAIRN_NO_SPACE);
		assert_code(net_gunzip(packed, n - 1, len, &none, &err), CAIRN_INTERNAL);
	}
}

static void a_gzip_bomb_costs_no_more_than_the_limit(void **state)
{
	static uint8_t zeros[10 << 20], packed[64 << 10];
	struct net_msg *msg = NULL;
	struct cairn_err err = {0};
	size_t n = gzip(zeros, sizeof(zeros), packed, sizeof(packed));

	(void)state;
	assert_true(n < 20000);
	assert_code(net_gunzip(packed, n, 1 << 20, &msg, &err), CAIRN_NO_SPACE);
	assert_null(msg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_found_however_the_bytes_are_cut),
		cmocka_unit_test(a_stream_that_ends_early_is_not_idle),
		cmocka_unit_test(bad_flags_and_long_messages_are_refused),
		cmocka_unit_test(a_prefix_comes_back),
		cmocka_unit_test(a_queue_gives_back_what_was_put_in),
		cmocka_unit_test(a_kept_queue_can_be_read_again),
		cmocka_unit_test(a_cleared_queue_keeps_a_reservation_valid),
		cmocka_unit_test(gzip_is_taken_up_to_the_limit),
		cmocka_unit_test(a_gzip_bomb_costs_no_more_than_the_limit),
	};

	return cmocka_run_group_tests_name("net/grpc_frame", tests, NULL, NULL);
}
