/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <nghttp2/nghttp2.h>

#include "net/recent_streams.h"

static void frames_for_streams_that_are_over_are_errors(void **state)
{
	struct net_recent_streams recent = {0};

	(void)state;
	net_recent_streams_open(&recent, 1);
	net_recent_streams_open(&recent, 5);
	net_recent_streams_close(&recent, 1, false);
	assert_int_equal(net_recent_streams_error(&recent, 1, false), NGHTTP2_STREAM_CLOSED);
	assert_int_equal(net_recent_streams_error(&recent, 1, true), NGHTTP2_STREAM_CLOSED);
	assert_int_equal(net_recent_streams_error(&recent, 3, true), NGHTTP2_PROTOCOL_ERROR);
	assert_int_equal(net_recent_streams_error(&recent, 3, false), 0);
}

static void what_the_peer_could_not_know_is_ignored(void **state)
{
	struct net_recent_streams recent = {0};

	(void)state;
	net_recent_streams_open(&recent, 1); /* refused before it began */
	net_recent_streams_open(&recent, 3);
	net_recent_streams_close(&recent, 3, true); /* reset by us */
	assert_int_equal(net_recent_streams_error(&recent, 1, true), 0);
	assert_int_equal(net_recent_streams_error(&recent, 3, false), 0);
}

static void what_is_forgotten_is_ignored(void **state)
{
	struct net_recent_streams recent = {0};

	(void)state;
	for (int32_t id = 1; id < 4 * NET_RECENT_STREAMS; id += 2) {
		net_recent_streams_open(&recent, id);
		net_recent_streams_close(&recent, id, false);
	}
	assert_int_equal(recent.last, 4 * NET_RECENT_STREAMS - 1);
	assert_int_equal(net_recent_streams_error(&recent, 1, true), 0);
	assert_int_equal(net_recent_streams_error(&recent, recent.last, true),
			 NGHTTP2_STREAM_CLOSED);
	assert_int_equal(net_recent_streams_error(&recent, 2 * NET_RECENT_STREAMS + 1, true),
			 NGHTTP2_STREAM_CLOSED);
	assert_int_equal(net_recent_streams_error(&recent, 2 * NET_RECENT_STREAMS - 1, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_for_streams_that_are_over_are_errors),
		cmocka_unit_test(what_the_peer_could_not_know_is_ignored),
		cmocka_unit_test(what_is_forgotten_is_ignored),
	};

	return cmocka_run_group_tests_name("net/recent_streams", tests, NULL, NULL);
}
