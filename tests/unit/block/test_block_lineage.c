/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>

#include "base/mem.h"
#include "block/lineage.h"
#include "failing_memory.h"

#define MISSING UINT64_MAX

/* Parents by number; number 0 is not used. */
struct forest {
	const uint64_t *parents;
	size_t n;
};

static int forest_parent(void *arg, uint64_t number, uint64_t *ret_parent, struct cairn_err *err)
{
	const struct forest *forest = arg;

	if (number >= forest->n || forest->parents[number] == MISSING)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no such snapshot");
	*ret_parent = forest->parents[number];
	return 0;
}

/* One volume: 1-2-3-6. A clone of 2: 4-5-8. Another volume: 7-9. 10 follows 11,
 * which is impossible; 12 follows 13, which has no record and is too large; 14
 * follows 13; 15 follows itself. */
static const uint64_t parents[] = {0, 0, 1, 2, 2, 4, 3, 0, 5, 7, 11, 1, 1, MISSING, 13, 15};

static void the_way_leads_over_the_common_ancestor(void **state)
{
	static const struct {
		uint64_t base, target;
		int code;
		size_t n;
		struct block_lineage_step steps[5];
	} cases[] = {
		{1, 2, 0, 1, {{2, false}}},
		{1, 6, 0, 3, {{2, false}, {3, false}, {6, false}}},
		{3, 3, 0, 0, {{0}}},
		{2, 8, 0, 3, {{4, false}, {5, false}, {8, false}}},
		{6, 8, 0, 5, {{3, true}, {6, true}, {4, false}, {5, false}, {8, false}}},
		{8, 6, 0, 5, {{4, true}, {5, true}, {8, true}, {3, false}, {6, false}}},
		{4, 3, 0, 2, {{4, true}, {3, false}}},
		{7, 9, 0, 1, {{9, false}}},
		{2, 1, CAIRN_INVALID, 0, {{0}}},
		{8, 2, CAIRN_INVALID, 0, {{0}}},
		{1, 9, CAIRN_INVALID, 0, {{0}}},
		{9, 6, CAIRN_INVALID, 0, {{0}}},
		{0, 1, CAIRN_INVALID, 0, {{0}}},
		{1, 0, CAIRN_INVALID, 0, {{0}}},
		{1, 99, CAIRN_NOT_FOUND, 0, {{0}}},
		{99, 1, CAIRN_NOT_FOUND, 0, {{0}}},
		{99, 99, CAIRN_NOT_FOUND, 0, {{0}}},
		{1, 10, CAIRN_DATA_LOSS, 0, {{0}}},
		{1, 14, CAIRN_DATA_LOSS, 0, {{0}}},
		{1, 15, CAIRN_DATA_LOSS, 0, {{0}}},
	};
	struct forest forest = {parents, ARRAY_LEN(parents)};
	struct block_lineage_source source = {forest_parent, &forest};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_free struct block_lineage_step *steps = NULL;
		struct cairn_err err = {0};
		size_t n = 77;
		int rc;

		rc = block_lineage_path(source, cases[i].base, cases[i].target, &steps, &n, &err);
		if (rc != cases[i].code)
			fail_msg("%zu: %d %s", i, rc, err.msg);
		if (rc < 0) {
			assert_null(steps);
			assert_int_equal(n, 77);
			assert_int_equal(err.code, rc);
			continue;
		}
		assert_int_equal(n, cases[i].n);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(steps[k].number, cases[i].steps[k].number);
			assert_int_equal(steps[k].on_base_side, cases[i].steps[k].on_base_side);
		}
	}
}

/* Every snapshot follows the one with the number before. */
static int line_parent(void *arg, uint64_t number, uint64_t *ret_parent, struct cairn_err *err)
{
	(void)arg;
	(void)err;
	*ret_parent = number - 1;
	return 0;
}

static void a_long_line_is_followed_up_to_the_limit(void **state)
{
	struct block_lineage_source source = {line_parent, NULL};
	cairn_auto_free struct block_lineage_step *steps = NULL;
	struct cairn_err err = {0};
	size_t n = 0;

	(void)state;
	assert_ok(block_lineage_path(source, 1, 1 + BLOCK_LINEAGE_STEPS_MAX, &steps, &n, &err),
		  &err);
	assert_int_equal(n, BLOCK_LINEAGE_STEPS_MAX);
	assert_int_equal(steps[0].number, 2);
	assert_int_equal(steps[n - 1].number, 1 + BLOCK_LINEAGE_STEPS_MAX);
	assert_int_equal(
		block_lineage_path(source, 1, 2 + BLOCK_LINEAGE_STEPS_MAX, &steps, &n, &err),
		CAIRN_NO_SPACE);
}

static int long_path(struct cairn_err *err)
{
	struct block_lineage_source source = {line_parent, NULL};
	cairn_auto_free struct block_lineage_step *steps = NULL;
	size_t n;

	return block_lineage_path(source, 1, 1000, &steps, &n, err);
}

static void every_failed_allocation_is_reported(void **state)
{
	(void)state;
	assert_in_range(assert_allocations_may_fail(long_path), 2, SIZE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_way_leads_over_the_common_ancestor),
		cmocka_unit_test(a_long_line_is_followed_up_to_the_limit),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};

	return cmocka_run_group_tests_name("block/lineage", tests, NULL, NULL);
}
