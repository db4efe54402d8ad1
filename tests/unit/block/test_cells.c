/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "block/cells.h"

#define MIB (1ULL << 20)

static void cell_size_is_the_smallest_power_of_two_that_fits(void **state)
{
	static const struct {
		uint64_t size, least;
		size_t max_cells;
		uint64_t want;
	} cases[] = {
		{MIB, 4096, 256, 4096},
		{MIB, 4096, 255, 8192},
		{MIB + 512, 4096, 256, 8192},
		{512, 4096, 1, 4096},
		{8192 * MIB, 4096, 1024, 8 * MIB},
		{1ULL << 60, 4096, 16, 1ULL << 56},
		{UINT64_MAX, 4096, 1024, 1ULL << 54},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(
			block_cells_choose_size(cases[i].size, cases[i].least, cases[i].max_cells),
			cases[i].want);
}

static void bytes_are_counted_in_the_cells_they_touch(void **state)
{
	struct block_cells cells = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(block_cells_init(&cells, 10000, 4096, &err), &err);
	assert_int_equal(cells.n, 3);
	block_cells_add(&cells, BLOCK_CELL_CHANGED, 4000, 200);
	block_cells_add(&cells, BLOCK_CELL_UNCHANGED, 0, 1000);
	block_cells_add(&cells, BLOCK_CELL_ZEROED, 9000, UINT64_MAX); /* clipped */
	block_cells_add(&cells, BLOCK_CELL_ZEROED, 10000, 1);         /* outside */

	assert_int_equal(block_cells_bytes(&cells, 0, BLOCK_CELL_CHANGED), 96);
	assert_int_equal(block_cells_bytes(&cells, 1, BLOCK_CELL_CHANGED), 104);
	assert_int_equal(block_cells_bytes(&cells, 0, BLOCK_CELL_HOLE), 3000);
	assert_int_equal(block_cells_span(&cells, 2), 10000 - 8192);
	assert_int_equal(block_cells_total(&cells, BLOCK_CELL_ZEROED), 1000);
	assert_int_equal(block_cells_total(&cells, BLOCK_CELL_HOLE), 10000 - 200 - 1000 - 1000);
	block_cells_done(&cells);
}

static void the_most_important_state_of_a_cell_wins(void **state)
{
	struct block_cells cells = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(block_cells_init(&cells, 4096, 4096, &err), &err);
	assert_int_equal(block_cells_state(&cells, 0), BLOCK_CELL_HOLE);
	block_cells_add(&cells, BLOCK_CELL_UNCHANGED, 0, 2000);
	assert_int_equal(block_cells_state(&cells, 0), BLOCK_CELL_UNCHANGED);
	block_cells_add(&cells, BLOCK_CELL_ZEROED, 2000, 100);
	assert_int_equal(block_cells_state(&cells, 0), BLOCK_CELL_ZEROED);
	block_cells_add(&cells, BLOCK_CELL_CHANGED, 2100, 1);
	assert_int_equal(block_cells_state(&cells, 0), BLOCK_CELL_CHANGED);
	block_cells_done(&cells);
}

static void pictures_without_or_with_too_many_cells_are_refused(void **state)
{
	struct block_cells cells = {0};

	(void)state;
	assert_code(block_cells_init(&cells, 0, 4096, NULL), CAIRN_INVALID);
	assert_code(block_cells_init(&cells, 4096, 0, NULL), CAIRN_INVALID);
	assert_code(block_cells_init(&cells, UINT64_MAX, 4096, NULL), CAIRN_INVALID);
	assert_null(cells.cell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cell_size_is_the_smallest_power_of_two_that_fits),
		cmocka_unit_test(bytes_are_counted_in_the_cells_they_touch),
		cmocka_unit_test(the_most_important_state_of_a_cell_wins),
		cmocka_unit_test(pictures_without_or_with_too_many_cells_are_refused),
	};

	return cmocka_run_group_tests_name("block/cells", tests, NULL, NULL);
}
