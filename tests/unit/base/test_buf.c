/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"

static void appends_follow_one_another(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1000);
	cairn_auto_free char *text = NULL;

	(void)state;
	cairn_buf_add(&buf, "ab", 2);
	cairn_buf_add(&buf, NULL, 0);
	cairn_buf_addc(&buf, 'c');
	cairn_buf_adds(&buf, "de");
	cairn_buf_addf(&buf, "%d-%s", 7, "x");
	text = cairn_buf_take_string(&buf);
	assert_string_equal(text, "abcde7-x");
	assert_int_equal(buf.len, 0);
}

static void an_empty_buffer_gives_an_empty_string(void **state)
{
	static const size_t limits[] = {0, 1, 1000};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(limits[i]);
		cairn_auto_free char *text = cairn_buf_take_string(&buf);

		assert_string_equal(text, "");
	}
}

static void the_limit_is_exact_and_a_failure_sticks(void **state)
{
	static const size_t limits[] = {0, 1, 63, 64, 65, 100, 5000};
	static const char bytes[5001];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(limits[i]);

		cairn_buf_add(&buf, bytes, limits[i]);
		assert_false(cairn_buf_failed(&buf));
		assert_int_equal(buf.len, limits[i]);
		cairn_buf_addc(&buf, 'x');
		assert_true(cairn_buf_failed(&buf));
		cairn_buf_consume(&buf, limits[i]);
		cairn_buf_addc(&buf, 'x');
		assert_int_equal(buf.len, 0);
		assert_null(cairn_buf_take_string(&buf));
	}
}

static void a_reset_clears_the_failure(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(3);

	(void)state;
	cairn_buf_adds(&buf, "abcd");
	assert_true(cairn_buf_failed(&buf));
	cairn_buf_reset(&buf);
	cairn_buf_adds(&buf, "abc");
	assert_false(cairn_buf_failed(&buf));
	assert_memory_equal(buf.data, "abc", 3);
}

static void a_size_that_wraps_is_refused(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(SIZE_MAX);

	(void)state;
	cairn_buf_addc(&buf, 'x');
	assert_null(cairn_buf_reserve(&buf, SIZE_MAX));
	assert_true(cairn_buf_failed(&buf));
}

static void formatted_text_may_fill_it_to_the_last_byte(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(5);

	(void)state;
	cairn_buf_addf(&buf, "%05d", 42);
	assert_false(cairn_buf_failed(&buf));
	assert_memory_equal(buf.data, "00042", 5);
	cairn_buf_addf(&buf, "%s", "");
	assert_false(cairn_buf_failed(&buf));
}

static void varints_have_seven_bits_a_byte(void **state)
{
	static const struct {
		uint64_t value;
		size_t len;
		uint8_t bytes[10];
	} cases[] = {
		{0, 1, {0}},
		{127, 1, {127}},
		{128, 2, {0x80, 1}},
		{16383, 2, {0xff, 0x7f}},
		{16384, 3, {0x80, 0x80, 1}},
		{UINT64_MAX, 10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(10);

		cairn_buf_add_varint(&buf, cases[i].value);
		assert_int_equal(buf.len, cases[i].len);
		assert_memory_equal(buf.data, cases[i].bytes, cases[i].len);
	}
}

static void consuming_drops_from_the_front(void **state)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(10);

	(void)state;
	cairn_buf_adds(&buf, "abcdef");
	cairn_buf_consume(&buf, 2);
	assert_memory_equal(buf.data, "cdef", 4);
	assert_int_equal(buf.len, 4);
	cairn_buf_consume(&buf, 100);
	assert_int_equal(buf.len, 0);
}

static void a_wiped_buffer_is_empty_and_may_be_used_again(void **state)
{
	cairn_auto_secret_buf struct cairn_buf buf = CAIRN_BUF_INIT(8);

	(void)state;
	cairn_buf_wipe(&buf);
	cairn_buf_adds(&buf, "123456789");
	assert_true(cairn_buf_failed(&buf));
	cairn_buf_wipe(&buf);
	assert_null(buf.data);
	assert_int_equal(buf.len, 0);
	cairn_buf_adds(&buf, "12345678");
	assert_false(cairn_buf_failed(&buf));
	assert_int_equal(buf.len, 8);
}

static void short_memory_is_a_failure_that_keeps_what_was_there(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 4; n++) {
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1 << 20);
		static const char block[300];

		cairn_mem_fail_at(n, 0);
		for (int i = 0; i < 10; i++)
			cairn_buf_add(&buf, block, sizeof(block));
		cairn_mem_fail_at(0, 0);
		assert_true(cairn_buf_failed(&buf));
		assert_true(buf.len < 10 * sizeof(block));
		assert_int_equal(buf.len % sizeof(block), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(appends_follow_one_another),
		cmocka_unit_test(an_empty_buffer_gives_an_empty_string),
		cmocka_unit_test(the_limit_is_exact_and_a_failure_sticks),
		cmocka_unit_test(a_reset_clears_the_failure),
		cmocka_unit_test(a_size_that_wraps_is_refused),
		cmocka_unit_test(formatted_text_may_fill_it_to_the_last_byte),
		cmocka_unit_test(varints_have_seven_bits_a_byte),
		cmocka_unit_test(consuming_drops_from_the_front),
		cmocka_unit_test(a_wiped_buffer_is_empty_and_may_be_used_again),
		cmocka_unit_test(short_memory_is_a_failure_that_keeps_what_was_there),
	};

	return cmocka_run_group_tests_name("base/buf", tests, NULL, NULL);
}
