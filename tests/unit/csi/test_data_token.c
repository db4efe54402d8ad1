/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "csi/data_token.h"

#define NOW 1790000000ULL
#define TTL 3600U

static const struct csi_token_key key = {.bytes = {1, 2, 3}};
static const struct csi_data_token token = {
	.snapshot = "snap-0123456789abcdef-7",
	.offset = 1ULL << 40,
	.length = 65536,
	.issued_s = NOW,
	.ttl_s = TTL,
};

static size_t seal(const struct csi_token_key *with, const struct csi_data_token *what, char *out)
{
	cairn_cleanup(csi_token_sealer_freep) struct csi_token_sealer *sealer = NULL;

	assert_code(csi_token_sealer_new(with, &sealer, NULL), 0);
	return csi_token_seal(sealer, what, out);
}

static void a_token_says_what_it_was_made_for(void **state)
{
	char text[CSI_TOKEN_TEXT_MAX + 1];
	struct csi_data_token found;
	struct cairn_err err = {0};
	size_t n = seal(&key, &token, text);

	(void)state;
	assert_int_equal(n, strlen(text));
	assert_int_equal(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789-_"),
			 n);
	assert_ok(csi_data_token_open(&key, text, NULL, NOW, &found, &err), &err);
	assert_string_equal(found.snapshot, token.snapshot);
	assert_int_equal(found.offset, token.offset);
	assert_int_equal(found.length, token.length);
	assert_int_equal(found.issued_s, token.issued_s);
	assert_int_equal(found.ttl_s, token.ttl_s);
}

static void the_longest_id_fits(void **state)
{
	char text[CSI_TOKEN_TEXT_MAX + 1];
	struct csi_data_token wide = token;
	struct csi_data_token found;
	struct cairn_err err = {0};

	(void)state;
	memset(wide.snapshot, 'x', POOL_ID_MAX);
	assert_in_range(seal(&key, &wide, text), 1, CSI_TOKEN_TEXT_MAX);
	assert_ok(csi_data_token_open(&key, text, NULL, NOW, &found, &err), &err);
	assert_string_equal(found.snapshot, wide.snapshot);
}

static void a_token_lives_from_its_issue_to_its_end(void **state)
{
	static const struct {
		uint64_t now;
		int code;
	} cases[] = {
		{NOW, 0},
		{NOW + TTL - 1, 0},
		{NOW + TTL, CAIRN_UNAUTHENTICATED},
		{NOW + 10 * TTL, CAIRN_UNAUTHENTICATED},
		{UINT64_MAX, CAIRN_UNAUTHENTICATED},
		{NOW - 60, 0}, /* two clocks differ */
		{NOW - 3600, CAIRN_UNAUTHENTICATED},
		{0, CAIRN_UNAUTHENTICATED},
	};
	char text[CSI_TOKEN_TEXT_MAX + 1];

	(void)state;
	seal(&key, &token, text);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct csi_data_token found;

		assert_code(csi_data_token_open(&key, text, NULL, cases[i].now, &found, NULL),
			    cases[i].code);
	}
}

/* Whatever single digit is changed, also the last, whose low bits say nothing. */
static void no_other_text_is_taken(void **state)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789-_+/= ";
	char text[CSI_TOKEN_TEXT_MAX + 1];
	size_t n = seal(&key, &token, text);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		char was = text[i];

		for (const char *digit = digits; *digit; digit++) {
			struct csi_data_token found;
			int want = *digit == was ? 0 : CAIRN_UNAUTHENTICATED;

			text[i] = *digit;
			assert_code(csi_data_token_open(&key, text, NULL, NOW, &found, NULL), want);
		}
		text[i] = was;
	}
}

static void cut_and_stretched_texts_are_refused(void **state)
{
	char text[2 * CSI_TOKEN_TEXT_MAX + 2];
	struct csi_data_token found;
	size_t n = seal(&key, &token, text);

	(void)state;
	for (size_t len = 0; len < n; len++) {
		char cut[CSI_TOKEN_TEXT_MAX + 1];

		memcpy(cut, text, len);
		cut[len] = '\0';
		assert_code(csi_data_token_open(&key, cut, NULL, NOW, &found, NULL),
			    CAIRN_UNAUTHENTICATED);
	}
	for (size_t len = n; len < sizeof(text) - 1; len++) {
		text[len] = 'A';
		text[len + 1] = '\0';
		assert_code(csi_data_token_open(&key, text, NULL, NOW, &found, NULL),
			    CAIRN_UNAUTHENTICATED);
	}
}

static void another_key_opens_nothing(void **state)
{
	char text[CSI_TOKEN_TEXT_MAX + 1];
	struct csi_token_key other = key;
	struct csi_data_token found = {.offset = 42};
	struct cairn_err err = {0};

	(void)state;
	other.bytes[31] ^= 1;
	seal(&key, &token, text);
	assert_code(csi_data_token_open(&other, text, NULL, NOW, &found, &err),
		    CAIRN_UNAUTHENTICATED);
	assert_int_equal(found.offset, 42);
	assert_null(strstr(err.msg, text));
}

static void a_sealer_seals_many_alike(void **state)
{
	cairn_cleanup(csi_token_sealer_freep) struct csi_token_sealer *sealer = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(csi_token_sealer_new(&key, &sealer, &err), &err);
	for (uint64_t i = 0; i < 20; i++) {
		struct csi_data_token one = {
			.snapshot = "snap-1", .offset = i, .length = 1, .ttl_s = 9};
		char many[CSI_TOKEN_TEXT_MAX + 1], single[CSI_TOKEN_TEXT_MAX + 1];

		assert_true(csi_token_seal(sealer, &one, many) > 0);
		assert_true(seal(&key, &one, single) > 0);
		assert_string_equal(many, single);
	}
}

static void a_bound_token_is_good_for_its_holder_only(void **state)
{
	char bound[CSI_TOKEN_TEXT_MAX + 1];
	char free_text[CSI_TOKEN_TEXT_MAX + 1];
	struct csi_data_token for_ann = token;
	struct csi_data_token found;

	(void)state;
	for_ann.holder = "ann";
	assert_true(seal(&key, &for_ann, bound) > 0);
	assert_true(seal(&key, &token, free_text) > 0);
	assert_code(csi_data_token_open(&key, bound, "ann", NOW, &found, NULL), 0);
	assert_code(csi_data_token_open(&key, bound, "bob", NOW, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	assert_code(csi_data_token_open(&key, bound, "anna", NOW, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	assert_code(csi_data_token_open(&key, bound, NULL, NOW, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	assert_code(csi_data_token_open(&key, free_text, "ann", NOW, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	assert_code(csi_data_token_open(&key, free_text, "", NOW, &found, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sealer_seals_many_alike),
		cmocka_unit_test(a_token_says_what_it_was_made_for),
		cmocka_unit_test(the_longest_id_fits),
		cmocka_unit_test(a_token_lives_from_its_issue_to_its_end),
		cmocka_unit_test(no_other_text_is_taken),
		cmocka_unit_test(cut_and_stretched_texts_are_refused),
		cmocka_unit_test(another_key_opens_nothing),
		cmocka_unit_test(a_bound_token_is_good_for_its_holder_only),
	};

	return cmocka_run_group_tests_name("csi/data_token", tests, NULL, NULL);
}
