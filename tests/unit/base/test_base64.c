/* SPDX-License-Identifier: Apache-2.0 */

#include "base/base64.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cairntest.h"

static void base64_comes_back_with_and_without_padding(void **state)
{
	static const char *const padding[] = {"", "==", "="};
	uint8_t data[64], back[80];
	char text[100];

	(void)state;
	for (size_t n = 0; n < sizeof(data); n++) {
		size_t len, got;

		for (size_t i = 0; i < n; i++)
			data[i] = (uint8_t)(i * 37 + n * 11);
		len = cairn_base64_encode(data, n, text);
		assert_int_equal(len, cairn_base64_length(n));
		assert_null(memchr(text, '=', len));
		assert_true(cairn_base64_decode(text, len, back, &got));
		assert_int_equal(got, n);
		assert_memory_equal(back, data, n);
		snprintf(text + len, 3, "%s", padding[n % 3]);
		assert_true(cairn_base64_decode(text, strlen(text), back, &got));
		assert_int_equal(got, n);
	}
}

static void what_is_no_base64_is_refused(void **state)
{
	static const char *const bad[] = {"A",    "AAAAA", "A=",    "====", "AA=A",
					  "A-_A", "A A",   "AAA\n", "=AAA", "A==="};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint8_t out[16];
		size_t n;

		if (cairn_base64_decode(bad[i], strlen(bad[i]), out, &n))
			fail_msg("'%s' was taken", bad[i]);
	}
}

static void padded_text_has_padding_and_a_maximum(void **state)
{
	static const char *const cases[] = {"", "abc", "ab=c", "a===", "ab c", "abcd\n", "!bcd"};
	uint8_t out[16];
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_false(cairn_base64_decode_padded(cases[i], out, sizeof(out), &n));
	assert_false(cairn_base64_decode_padded("AAAAAAAA", out, 5, &n));
	assert_true(cairn_base64_decode_padded("AAAAAAA=", out, 5, &n));
	assert_int_equal(n, 5);
}

static void a_text_may_be_folded_and_has_no_nul(void **state)
{
	static const struct {
		const char *coded, *text; /* NULL: refused */
	} cases[] = {
		{"", ""},
		{"cGVt", "pem"},
		{"cGVtcw==", "pems"},
		{" cG\nVt\r\n\tcw ", "pems"},
		{"AAAA", NULL}, /* NUL bytes */
		{"cGVt!", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *got = cairn_base64_text(cases[i].coded, strlen(cases[i].coded));

		assert_int_equal(!got, !cases[i].text);
		if (got)
			assert_string_equal(got, cases[i].text);
		free(got);
	}
	assert_null(cairn_base64_text("cGVt\0cGVt", 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base64_comes_back_with_and_without_padding),
		cmocka_unit_test(what_is_no_base64_is_refused),
		cmocka_unit_test(padded_text_has_padding_and_a_maximum),
		cmocka_unit_test(a_text_may_be_folded_and_has_no_nul),
	};

	return cmocka_run_group_tests_name("base/base64", tests, NULL, NULL);
}
