/* SPDX-License-Identifier: Apache-2.0 */

/* Rates of users: one bucket each, which nobody else can empty by the choice of a name. */

#include "cairntest.h"

#include <stdint.h>
#include <string.h>

#include "block/checksum.h"
#include "older/aggapi/rates.h"

#define ROUNDS 6U
#define NOW    1000000000ULL

#define LENGTH 32U

/* Names of equal checksums, as anybody can make them. XXH3 multiplies the first eight bytes of a
 * name of this length, combined with a constant, with the next eight: if the first eight are that
 * constant, the product is 0 whatever the others are. */
static void make_name(char fill, char out[LENGTH + 1])
{
	static const char constant[] = "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe";

	memset(out, 'x', LENGTH);
	memcpy(out, constant, 8);
	memset(out + 8, fill, 8);
	out[LENGTH] = '\0';
}

/* True if the second name finds the bucket that the first one has emptied. */
static bool share_a_bucket(const char *first, const char *second)
{
	struct aggapi_rates *rates = NULL;
	struct cairn_err err = {0};
	uint64_t wait_s = 0;
	bool shared;

	assert_ok(aggapi_rates_new(1, 1, &rates, &err), &err);
	assert_true(aggapi_rates_take(rates, first, NOW, &wait_s));
	assert_false(aggapi_rates_take(rates, first, NOW, &wait_s));
	shared = !aggapi_rates_take(rates, second, NOW, &wait_s);
	aggapi_rates_free(rates);
	return shared;
}

/* A key that is mixed in after a checksum without one does not tell such names apart. */
static void names_of_equal_checksums_have_buckets_of_their_own(void **state)
{
	char first[LENGTH + 1], second[LENGTH + 1];
	unsigned shared = 0;

	(void)state;
	make_name('a', first);
	make_name('b', second);
	assert_string_not_equal(first, second);
	assert_int_equal(block_checksum(first, strlen(first)),
			 block_checksum(second, strlen(second)));
	for (unsigned round = 0; round < ROUNDS; round++)
		shared += share_a_bucket(first, second);
	assert_true(shared < ROUNDS); /* by chance one of 4096 */
}

static void a_bucket_fills_again(void **state)
{
	struct aggapi_rates *rates = NULL;
	struct cairn_err err = {0};
	uint64_t wait_s = 0;

	(void)state;
	assert_ok(aggapi_rates_new(2, 3, &rates, &err), &err);
	for (int i = 0; i < 3; i++)
		assert_true(aggapi_rates_take(rates, "ann", NOW, &wait_s));
	assert_false(aggapi_rates_take(rates, "ann", NOW, &wait_s));
	assert_int_equal(wait_s, 1);
	assert_true(aggapi_rates_take(rates, "ann", NOW + 500000000ULL, &wait_s));
	assert_false(aggapi_rates_take(rates, "ann", NOW + 500000000ULL, &wait_s));
	aggapi_rates_free(rates);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_equal_checksums_have_buckets_of_their_own),
		cmocka_unit_test(a_bucket_fills_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
