/* SPDX-License-Identifier: Apache-2.0 */

#include "client/cursor.h"

#include "base/mem.h"
#include "cairntest.h"

#define KIB 1024ULL

struct tuple {
	uint64_t offset, length;
};

static size_t message(uint8_t *out, size_t cap, enum proto_block_type type, uint64_t capacity,
		      const struct tuple *tuples, size_t n)
{
	struct proto_block_writer w;

	proto_block_begin(&w, out, cap, type, capacity);
	for (size_t i = 0; i < n; i++)
		assert_true(proto_block_add(&w, tuples[i].offset, tuples[i].length));
	return proto_block_len(&w);
}

static int take(struct client_cursor *cursor, enum proto_block_type type, uint64_t capacity,
		const struct tuple *tuples, size_t n, struct cairn_err *err)
{
	uint8_t out[PROTO_BLOCK_ROOM(8)];
	size_t len = message(out, sizeof(out), type, capacity, tuples, n);

	return client_cursor_take(cursor, out, len, err);
}

static void blocks_come_as_they_are_and_the_position_follows_them(void **state)
{
	const struct tuple tuples[] = {{0, 4 * KIB}, {8 * KIB, KIB}};
	struct client_cursor cursor;
	struct cairn_err err = {0};

	(void)state;
	client_cursor_init(&cursor, 0, 0);
	client_cursor_stream(&cursor);
	assert_ok(take(&cursor, PROTO_BLOCK_VARIABLE, 64 * KIB, tuples, 2, &err), &err);
	assert_int_equal(cursor.n, 2);
	assert_int_equal(cursor.batch[1].offset, 8 * KIB);
	assert_int_equal(cursor.batch[1].length, KIB);
	assert_int_equal(cursor.at, 9 * KIB);
	assert_int_equal(cursor.bytes, 5 * KIB);
	assert_false(client_cursor_at_end(&cursor));
	client_cursor_done(&cursor);
}

static void a_block_that_begins_before_a_resumed_place_is_clipped_to_it(void **state)
{
	const struct tuple first[] = {{0, 4 * KIB}}, second[] = {{2 * KIB, 6 * KIB}};
	struct client_cursor cursor;
	struct cairn_err err = {0};

	(void)state;
	client_cursor_init(&cursor, 0, 0);
	client_cursor_stream(&cursor);
	assert_ok(take(&cursor, PROTO_BLOCK_VARIABLE, 64 * KIB, first, 1, &err), &err);
	client_cursor_stream(&cursor);
	assert_int_equal(cursor.scan.starting_offset, 4 * KIB);
	assert_ok(take(&cursor, PROTO_BLOCK_VARIABLE, 64 * KIB, second, 1, &err), &err);
	assert_int_equal(cursor.batch[0].offset, 4 * KIB);
	assert_int_equal(cursor.batch[0].length, 4 * KIB);
	assert_int_equal(cursor.bytes, 8 * KIB);
	client_cursor_done(&cursor);
}

static void the_first_block_may_begin_before_the_starting_offset(void **state)
{
	const struct tuple tuples[] = {{2 * KIB, 6 * KIB}};
	struct client_cursor cursor;
	struct cairn_err err = {0};

	(void)state;
	client_cursor_init(&cursor, 4 * KIB, 0);
	client_cursor_stream(&cursor);
	assert_ok(take(&cursor, PROTO_BLOCK_VARIABLE, 64 * KIB, tuples, 1, &err), &err);
	assert_int_equal(cursor.batch[0].offset, 2 * KIB);
	assert_int_equal(cursor.batch[0].length, 6 * KIB);
	client_cursor_done(&cursor);
}

static void what_breaks_a_rule_is_refused_and_nothing_of_its_message_counts(void **state)
{
	static const struct {
		const char *what;
		bool new_stream;
		enum proto_block_type type;
		uint64_t capacity;
		struct tuple tuples[2];
		size_t n;
	} cases[] = {
		{"overlap in a stream",
		 false,
		 PROTO_BLOCK_FIXED,
		 64 * KIB,
		 {{3 * KIB, 4 * KIB}},
		 1},
		{"what was listed again", true, PROTO_BLOCK_FIXED, 64 * KIB, {{0, 4 * KIB}}, 1},
		{"another type in a stream", false, PROTO_BLOCK_VARIABLE, 64 * KIB, {{0}}, 0},
		{"another type in another stream", true, PROTO_BLOCK_VARIABLE, 64 * KIB, {{0}}, 0},
		{"another capacity", true, PROTO_BLOCK_FIXED, 32 * KIB, {{0}}, 0},
		{"another size of blocks", true, PROTO_BLOCK_FIXED, 64 * KIB, {{8 * KIB, KIB}}, 1},
		{"behind the end", true, PROTO_BLOCK_FIXED, 64 * KIB, {{64 * KIB, 4 * KIB}}, 1},
		{"a good block and a bad one",
		 true,
		 PROTO_BLOCK_FIXED,
		 64 * KIB,
		 {{8 * KIB, 4 * KIB}, {8 * KIB, 4 * KIB}},
		 2},
	};
	const struct tuple first[] = {{0, 4 * KIB}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct client_cursor cursor;
		struct cairn_err err = {0};

		client_cursor_init(&cursor, 0, 0);
		client_cursor_stream(&cursor);
		assert_ok(take(&cursor, PROTO_BLOCK_FIXED, 64 * KIB, first, 1, &err), &err);
		if (cases[i].new_stream)
			client_cursor_stream(&cursor);
		if (take(&cursor, cases[i].type, cases[i].capacity, cases[i].tuples, cases[i].n,
			 &err) != CAIRN_INTERNAL)
			fail_msg("%s was taken", cases[i].what);
		assert_int_equal(cursor.n, 0);
		assert_int_equal(cursor.blocks, 1);
		assert_int_equal(cursor.at, 4 * KIB);
		client_cursor_done(&cursor);
	}
}

static void a_listing_that_reached_the_capacity_is_at_its_end(void **state)
{
	const struct tuple last[] = {{60 * KIB, 8 * KIB}}; /* a fixed block may pass the end */
	struct client_cursor cursor;
	struct cairn_err err = {0};

	(void)state;
	client_cursor_init(&cursor, 0, 0);
	client_cursor_stream(&cursor);
	assert_false(client_cursor_at_end(&cursor));
	assert_ok(take(&cursor, PROTO_BLOCK_FIXED, 64 * KIB, last, 1, &err), &err);
	assert_true(client_cursor_at_end(&cursor));
	client_cursor_done(&cursor);
}

static void running_out_of_memory_is_an_error_and_nothing_is_lost(void **state)
{
	const struct tuple tuples[] = {{0, 4 * KIB}};
	struct client_cursor cursor;
	struct cairn_err err = {0};

	(void)state;
	client_cursor_init(&cursor, 0, 0);
	client_cursor_stream(&cursor);
	cairn_mem_fail_at(1, 0);
	assert_code(take(&cursor, PROTO_BLOCK_VARIABLE, 64 * KIB, tuples, 1, &err), CAIRN_NO_SPACE);
	cairn_mem_fail_at(0, 0);
	assert_int_equal(cursor.at, 0);
	client_cursor_stream(&cursor);
	assert_ok(take(&cursor, PROTO_BLOCK_VARIABLE, 64 * KIB, tuples, 1, &err), &err);
	client_cursor_done(&cursor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_come_as_they_are_and_the_position_follows_them),
		cmocka_unit_test(a_block_that_begins_before_a_resumed_place_is_clipped_to_it),
		cmocka_unit_test(the_first_block_may_begin_before_the_starting_offset),
		cmocka_unit_test(what_breaks_a_rule_is_refused_and_nothing_of_its_message_counts),
		cmocka_unit_test(a_listing_that_reached_the_capacity_is_at_its_end),
		cmocka_unit_test(running_out_of_memory_is_an_error_and_nothing_is_lost),
	};

	return cmocka_run_group_tests_name("client/cursor", tests, NULL, NULL);
}
