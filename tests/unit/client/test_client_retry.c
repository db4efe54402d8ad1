/* SPDX-License-Identifier: Apache-2.0 */

#include "client/retry.h"

#include "base/clock.h"
#include "cairntest.h"

#define SECOND CAIRN_NS_PER_SEC

static void troubles_that_pass_are_tried_again_and_others_are_not(void **state)
{
	static const struct {
		int code;
		bool again;
	} cases[] = {
		{CAIRN_CANCELLED, true},     {CAIRN_UNKNOWN, true},
		{CAIRN_INVALID, false},      {CAIRN_DEADLINE, true},
		{CAIRN_NOT_FOUND, false},    {CAIRN_EXISTS, false},
		{CAIRN_DENIED, false},       {CAIRN_NO_SPACE, true},
		{CAIRN_PRECONDITION, false}, {CAIRN_ABORTED, true},
		{CAIRN_RANGE, false},        {CAIRN_UNIMPLEMENTED, false},
		{CAIRN_INTERNAL, true},      {CAIRN_UNAVAILABLE, true},
		{CAIRN_DATA_LOSS, false},    {CAIRN_UNAUTHENTICATED, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct client_retry retry;
		uint64_t wait;

		client_retry_init(&retry, 60000, 0);
		if (client_retry_failed(&retry, cases[i].code, 0, 0, &wait) != cases[i].again)
			fail_msg("%s", cairn_code_name(cases[i].code));
	}
}

static void a_second_token_that_is_refused_ends_it_unless_a_message_came_between(void **state)
{
	struct client_retry retry;
	uint64_t wait = 1;

	(void)state;
	client_retry_init(&retry, 60000, 0);
	assert_true(client_retry_failed(&retry, CAIRN_UNAUTHENTICATED, 0, 0, &wait));
	assert_int_equal(wait, 0);
	assert_false(client_retry_failed(&retry, CAIRN_UNAUTHENTICATED, 0, 0, &wait));
	client_retry_progress(&retry, SECOND);
	assert_true(client_retry_failed(&retry, CAIRN_UNAUTHENTICATED, SECOND, 0, &wait));
}

static void pauses_grow_to_a_limit_and_differ_by_chance(void **state)
{
	struct client_retry retry;
	uint64_t least, most, before = 0;

	(void)state;
	client_retry_init(&retry, UINT64_MAX, 0);
	for (int i = 0; i < 40; i++) {
		struct client_retry same = retry;

		assert_true(client_retry_failed(&retry, CAIRN_UNAVAILABLE, 0, 0, &least));
		for (uint32_t random = 1; random < 100000; random += 7919) {
			struct client_retry copy = same;

			assert_true(client_retry_failed(&copy, CAIRN_UNAVAILABLE, 0,
							random * 42000U, &most));
			assert_in_range(most, least, 2 * least);
		}
		assert_true(least >= before);
		assert_in_range(least, CLIENT_PAUSE_FIRST_MS / 2, CLIENT_PAUSE_MAX_MS);
		before = least;
	}
	assert_int_equal(before, CLIENT_PAUSE_MAX_MS / 2);
}

static void patience_is_counted_from_the_last_message(void **state)
{
	struct client_retry retry;
	uint64_t wait;

	(void)state;
	client_retry_init(&retry, 10000, 0);
	assert_true(client_retry_failed(&retry, CAIRN_UNAVAILABLE, 9 * SECOND, 0, &wait));
	assert_false(client_retry_failed(&retry, CAIRN_UNAVAILABLE, 10 * SECOND, 0, &wait));
	client_retry_progress(&retry, 10 * SECOND);
	assert_true(client_retry_failed(&retry, CAIRN_UNAVAILABLE, 19 * SECOND, 0, &wait));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(troubles_that_pass_are_tried_again_and_others_are_not),
		cmocka_unit_test(
			a_second_token_that_is_refused_ends_it_unless_a_message_came_between),
		cmocka_unit_test(pauses_grow_to_a_limit_and_differ_by_chance),
		cmocka_unit_test(patience_is_counted_from_the_last_message),
	};

	return cmocka_run_group_tests_name("client/retry", tests, NULL, NULL);
}
