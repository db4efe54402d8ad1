/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "net/frames.h"
#include "net/tls/tls_records.h"

#define HEADERS      1
#define DATA         0
#define CONTINUATION 9
#define END_HEADERS  4

static size_t put_frame(uint8_t *at, uint8_t type, uint8_t flags, uint8_t n)
{
	memset(at, 0, 9U + n);
	at[2] = n;
	at[3] = type;
	at[4] = flags;
	return 9U + n;
}

static void a_block_lasts_until_the_end_of_its_last_payload(void **state)
{
	uint8_t bytes[256];
	struct net_frames frames;
	size_t n = 24, begin, end;

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	n += put_frame(bytes + n, 4, 0, 6);
	begin = n + 9;
	n += put_frame(bytes + n, HEADERS, 0, 5);
	n += put_frame(bytes + n, CONTINUATION, 0, 0);
	n += put_frame(bytes + n, CONTINUATION, END_HEADERS, 3);
	end = n;
	n += put_frame(bytes + n, DATA, END_HEADERS, 7);
	/* However the bytes are cut. */
	for (size_t step = 1; step <= n; step++) {
		net_frames_init(&frames, 24);
		for (size_t at = 0; at < n; at += step) {
			size_t part = n - at < step ? n - at : step;

			net_frames_feed(&frames, bytes + at, part);
			assert_int_equal(frames.in_block, at + part >= begin && at + part < end);
		}
		assert_int_equal(frames.blocks, 1);
		assert_int_equal(frames.have, 0);
		assert_int_equal(frames.skip, 0);
	}
}

static void an_empty_block_ends_at_once(void **state)
{
	uint8_t bytes[32];
	struct net_frames frames;

	(void)state;
	net_frames_init(&frames, 0);
	net_frames_feed(&frames, bytes, put_frame(bytes, HEADERS, END_HEADERS, 0));
	assert_false(frames.in_block);
	assert_int_equal(frames.blocks, 1);
}

static void only_complete_records_are_whole(void **state)
{
	static const uint8_t two[] = {22, 3, 1, 0, 2, 'a', 'b', 23, 3, 3, 0, 1, 'c'};

	(void)state;
	for (size_t n = 0; n <= sizeof(two); n++)
		assert_int_equal(net_records_whole(two, n), n < 7 ? 0 : n < sizeof(two) ? 7 : n);
}

/* Waiting for the rest of these would only delay the error. */
static void what_is_no_record_is_whole(void **state)
{
	static const uint8_t large[] = {22, 3, 1, 0x48, 1}, largest[] = {22, 3, 1, 0x48, 0};

	(void)state;
	assert_int_equal(net_records_whole((const uint8_t *)"GET", 3), 3);
	assert_int_equal(net_records_whole((const uint8_t *)"\x16\x02", 2), 2);
	assert_int_equal(net_records_whole(large, sizeof(large)), sizeof(large));
	assert_int_equal(net_records_whole(largest, sizeof(largest)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_lasts_until_the_end_of_its_last_payload),
		cmocka_unit_test(an_empty_block_ends_at_once),
		cmocka_unit_test(only_complete_records_are_whole),
		cmocka_unit_test(what_is_no_record_is_whole),
	};

	return cmocka_run_group_tests_name("net/frames", tests, NULL, NULL);
}
