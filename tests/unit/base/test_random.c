/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/random.h"

static void hex_has_two_digits_a_byte_and_an_end(void **state)
{
	(void)state;
	for (size_t n = 0; n <= 40; n++) {
		char out[100];
		struct cairn_err err = {0};

		memset(out, 'Z', sizeof(out));
		assert_ok(cairn_random_hex(out, n, &err), &err);
		assert_int_equal(strlen(out), 2 * n);
		assert_int_equal(strspn(out, "0123456789abcdef"), 2 * n);
		assert_int_equal(out[2 * n + 1], 'Z');
	}
}

static void every_byte_value_comes_up_at_every_place(void **state)
{
	uint8_t seen[256] = {0};
	uint8_t bytes[4096];
	struct cairn_err err = {0};
	size_t values = 0;

	(void)state;
	assert_ok(cairn_random_bytes(bytes, sizeof(bytes), &err), &err);
	for (size_t i = 0; i < sizeof(bytes); i++)
		seen[bytes[i]] = 1;
	for (size_t i = 0; i < 256; i++)
		values += seen[i];
	/* Missing even one of 256 in 4096 draws is a matter of one in 35000. */
	assert_true(values >= 250);
}

static void two_ids_differ(void **state)
{
	char a[33], b[33];

	(void)state;
	assert_int_equal(cairn_random_hex(a, 16, NULL), 0);
	assert_int_equal(cairn_random_hex(b, 16, NULL), 0);
	assert_string_not_equal(a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hex_has_two_digits_a_byte_and_an_end),
		cmocka_unit_test(every_byte_value_comes_up_at_every_place),
		cmocka_unit_test(two_ids_differ),
	};

	return cmocka_run_group_tests_name("base/random", tests, NULL, NULL);
}
