/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "csi/op_lock.h"

static void an_object_has_one_call_at_a_time(void **state)
{
	struct csi_turns turns;
	struct csi_op_lock first = {0};
	struct csi_op_lock second = {0};
	struct csi_op_lock other = {0};
	struct cairn_err err = {0};

	(void)state;
	csi_turns_init(&turns);
	assert_ok(csi_op_lock_take(&turns, "a", &first, &err), &err);
	assert_ok(csi_op_lock_take(&turns, "b", &other, &err), &err);
	assert_int_equal(csi_op_lock_take(&turns, "a", &second, &err), CAIRN_ABORTED);
	csi_op_lock_end(&second); /* was not taken */
	assert_int_equal(csi_op_lock_take(&turns, "a", &second, &err), CAIRN_ABORTED);
	csi_op_lock_end(&first);
	assert_ok(csi_op_lock_take(&turns, "a", &second, &err), &err);
	assert_int_equal(csi_op_lock_take(&turns, "b", &first, &err), CAIRN_ABORTED);
	csi_op_lock_end(&second);
	csi_op_lock_end(&other);
	assert_null(turns.first);
	csi_turns_done(&turns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_has_one_call_at_a_time),
	};

	return cmocka_run_group_tests_name("csi/op_lock", tests, NULL, NULL);
}
