/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "csi/op_lock.h"

static void an_object_has_one_call_at_a_time(void **state)
{
	struct csi_turns turns;
	struct csi_turn first = {0};
	struct csi_turn second = {0};
	struct csi_turn other = {0};
	struct cairn_err err = {0};

	(void)state;
	csi_turns_init(&turns);
	assert_ok(csi_turn_take(&turns, "a", &first, &err), &err);
	assert_ok(csi_turn_take(&turns, "b", &other, &err), &err);
	assert_int_equal(csi_turn_take(&turns, "a", &second, &err), CAIRN_ABORTED);
	csi_turn_end(&second); /* was not taken */
	assert_int_equal(csi_turn_take(&turns, "a", &second, &err), CAIRN_ABORTED);
	csi_turn_end(&first);
	assert_ok(csi_turn_take(&turns, "a", &second, &err), &err);
	assert_int_equal(csi_turn_take(&turns, "b", &first, &err), CAIRN_ABORTED);
	csi_turn_end(&second);
	csi_turn_end(&other);
	assert_null(turns.first);
	csi_turns_done(&turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_has_one_call_at_a_time),
	};

	return cmocka_run_group_tests_name("csi/turn", tests, NULL, NULL);
}
