/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "base/siphash.h"

/* The key and inputs of the paper's vectors: bytes that count up from 0. */
static void the_published_vectors_come_out(void **state)
{
	static const uint64_t want[] = {
		0x726fdb47dd0e0e31ULL, 0x74f839c593dc67fdULL, 0x0d6c8009d9a94f5aULL,
		0x85676696d7fb7e2dULL, 0xcf2794e0277187b7ULL, 0x18765564cd99a68dULL,
		0xcbc9466e58fee3ceULL, 0xab0200f58b01d137ULL, 0x93f5f5799a932462ULL};
	struct cairn_siphash_key key = {.k0 = 0x0706050403020100ULL, .k1 = 0x0f0e0d0c0b0a0908ULL};
	uint8_t bytes[16];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	for (size_t n = 0; n < ARRAY_LEN(want); n++)
		assert_int_equal(cairn_siphash(&key, bytes, n), want[n]);
	assert_int_equal(cairn_siphash(&key, bytes, 15), 0xa129ca6149be45e5ULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_vectors_come_out),
	};

	return cmocka_run_group_tests_name("base/siphash", tests, NULL, NULL);
}
