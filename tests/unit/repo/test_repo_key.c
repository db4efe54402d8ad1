/* SPDX-License-Identifier: Apache-2.0 */

/* Key file and config that restic 0.19.1 made, and our own. */
#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "repo/crypt.h"
#include "repo/keyfile.h"
#include "repo/poly.h"
#include "repo/repo_config.h"

static const char restic_key[] =
	"{\"created\":\"2026-11-16T03:02:59.819726027Z\",\"username\":\"root\",\"hostname\":\"vm\","
	"\"kdf\":\"scrypt\",\"N\":16384,\"r\":8,\"p\":3,\"salt\":\"XcsVTnN3zPEg1DV0EV6xvsaeFLoZHHMw"
	"fDL0vNnSDjcOfzr8zVboaAadkFeyI4kYuOMAW1IoDtjeDakCJIEpkw==\",\"data\":\"qZG5VV69+G82FElMUIZj"
	"XeMTKGd5uovxLHsoVUNS89B7uQsvpbc9Uwvfy1aXXswxgooCuVI3OXi/ZMXvs5HZj4WM3X9Ao1nPvbKervCo3A56LN"
	"ziavgi3HQQH3KcmZlo6CtSJHH6vA7qagmwexgQKfQ1HrJdCYsfWuLIYU48LIgYHrtkpZJ0+80wlzvrYgAUa2TFeNs1"
	"/wF1apOeUAwb0g==\"}";

/* The config, sealed with that key. */
static const uint8_t restic_config[] = {
	0xe5, 0x56, 0xc1, 0xf7, 0xa0, 0xf8, 0x73, 0xa1, 0xba, 0xa9, 0x58, 0xd7, 0xd7, 0x85, 0xef,
	0xde, 0x15, 0x12, 0x67, 0xc2, 0xb7, 0x02, 0xd5, 0x66, 0x01, 0xb6, 0xf8, 0xf5, 0xd7, 0x34,
	0xfe, 0x21, 0xfd, 0x7e, 0x97, 0xb7, 0x63, 0x5d, 0xa8, 0x9e, 0x6f, 0xb7, 0x0a, 0x0f, 0xc2,
	0xea, 0x4e, 0xce, 0xc6, 0x05, 0x78, 0x72, 0x1d, 0x48, 0xae, 0x8b, 0xb0, 0xbb, 0xfe, 0x25,
	0x46, 0x4b, 0xc0, 0x5d, 0x37, 0x97, 0x7e, 0xa0, 0xaf, 0x9d, 0x74, 0xfe, 0x2a, 0x9f, 0x5d,
	0x22, 0xd5, 0xc0, 0x2b, 0x76, 0x2c, 0x8a, 0x1e, 0x20, 0xa4, 0xc6, 0x6a, 0x1f, 0xaa, 0x34,
	0xab, 0xc9, 0xc0, 0x04, 0xa7, 0x8b, 0x08, 0x1e, 0xda, 0xc2, 0x71, 0x44, 0x2a, 0xb0, 0xfb,
	0x8f, 0x17, 0x2f, 0xc8, 0xc6, 0xe3, 0x29, 0x25, 0x45, 0xf3, 0xd5, 0xcf, 0xd4, 0xfa, 0x1e,
	0x8a, 0xe8, 0x25, 0xe8, 0x53, 0x1c, 0x8b, 0x86, 0x05, 0xd1, 0x86, 0xb8, 0xa1, 0xee, 0xd0,
	0x62, 0x29, 0x77, 0xe0, 0xfd, 0x9b, 0x11, 0xbf, 0xed, 0x79, 0x5a, 0x83, 0xfc, 0xee, 0x92,
	0x4a, 0xa8, 0xd2, 0xf9, 0xc9,
};

static struct repo_key key_of_restic(void)
{
	struct repo_key key;
	struct cairn_err err = {0};

	assert_ok(repo_keyfile_decode(restic_key, strlen(restic_key), "geheim", 6, &key, &err),
		  &err);
	return key;
}

static void a_key_file_of_restic_opens(void **state)
{
	struct repo_key key = key_of_restic();
	uint8_t want[32];
	size_t n;

	(void)state;
	assert_true(cairn_base64_decode_padded("w43I+VDanWIOgRdp5Chfe72iLyGQsZgWAbUTwzPjpfw=", want,
					       sizeof(want), &n));
	assert_int_equal(n, 32);
	assert_memory_equal(key.encrypt, want, 32);
	assert_true(cairn_base64_decode_padded("EmbMEGHSZCOe6Jnp6V7wrw==", want, sizeof(want), &n));
	assert_memory_equal(key.mac_k, want, 16);
}

static void a_config_of_restic_is_read(void **state)
{
	struct repo_key key = key_of_restic();
	cairn_cleanup(repo_crypt_freep) struct repo_crypt *crypt = NULL;
	uint8_t sealed[sizeof(restic_config)];
	struct repo_config config;
	struct cairn_err err = {0};

	(void)state;
	memcpy(sealed, restic_config, sizeof(sealed));
	assert_ok(repo_crypt_new(&key, &crypt, &err), &err);
	assert_ok(repo_crypt_open(crypt, sealed, sizeof(sealed), &err), &err);
	assert_ok(repo_config_decode((char *)sealed + REPO_IV_SIZE, sizeof(sealed) - REPO_SEAL,
				     &config, &err),
		  &err);
	assert_string_equal(config.id,
			    "d8df2ea4b45594f30f8647abfe7838175a2f1eed1970021453ef7913fa5ab124");
	assert_true(config.polynomial == 0x3960a44dc89cad);
	assert_true(repo_poly_irreducible(config.polynomial));
}

static void a_wrong_password_is_told_from_damage(void **state)
{
	struct repo_key key;

	(void)state;
	assert_code(repo_keyfile_decode(restic_key, strlen(restic_key), "falsch", 6, &key, NULL),
		    CAIRN_UNAUTHENTICATED);
	assert_code(repo_keyfile_decode(restic_key, 100, "geheim", 6, &key, NULL), CAIRN_DATA_LOSS);
}

static void a_key_file_may_not_ask_for_too_much(void **state)
{
	static const struct {
		const char *n, *r, *p;
		int code;
	} cases[] = {
		{"1073741824", "8", "1", CAIRN_UNIMPLEMENTED},
		{"16384", "1000000000", "1", CAIRN_UNIMPLEMENTED},
		{"16384", "8", "1000000", CAIRN_UNIMPLEMENTED},
		{"16385", "8", "1", CAIRN_DATA_LOSS},
		{"0", "8", "1", CAIRN_DATA_LOSS},
		{"-2", "8", "1", CAIRN_DATA_LOSS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(10000);
		const char *salt = strstr(restic_key, "\"salt\"");
		struct repo_key key;

		cairn_buf_addf(&json, "{\"kdf\":\"scrypt\",\"N\":%s,\"r\":%s,\"p\":%s,%s",
			       cases[i].n, cases[i].r, cases[i].p, salt);
		assert_code(
			repo_keyfile_decode((char *)json.data, json.len, "geheim", 6, &key, NULL),
			cases[i].code);
	}
}

static void a_key_file_of_ours_comes_back(void **state)
{
	const struct repo_keyfile_owner owner = {.hostname = "h\"", .username = "u", .n = 16};
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(10000);
	struct repo_key key, back;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(repo_key_random(&key, &err), &err);
	assert_ok(repo_keyfile_encode(&key, "a\0b", 3, &owner, &json, &err), &err);
	assert_ok(repo_keyfile_decode((char *)json.data, json.len, "a\0b", 3, &back, &err), &err);
	assert_memory_equal(&key, &back, sizeof(key));
	assert_code(repo_keyfile_decode((char *)json.data, json.len, "a", 1, &back, NULL),
		    CAIRN_UNAUTHENTICATED);
}

static void every_flipped_bit_of_an_envelope_is_found(void **state)
{
	cairn_cleanup(repo_crypt_freep) struct repo_crypt *crypt = NULL;
	static const char plain[] = "forty-two";
	uint8_t sealed[sizeof(plain) + REPO_SEAL], copy[sizeof(sealed)];
	struct repo_key key;

	(void)state;
	assert_int_equal(repo_key_random(&key, NULL), 0);
	assert_int_equal(repo_crypt_new(&key, &crypt, NULL), 0);
	assert_int_equal(repo_crypt_seal(crypt, plain, sizeof(plain), sealed, NULL), 0);
	for (size_t bit = 0; bit < 8 * sizeof(sealed); bit++) {
		memcpy(copy, sealed, sizeof(copy));
		copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_code(repo_crypt_open(crypt, copy, sizeof(copy), NULL), CAIRN_DATA_LOSS);
	}
	for (size_t n = 0; n < sizeof(sealed); n++) {
		memcpy(copy, sealed, sizeof(copy));
		assert_code(repo_crypt_open(crypt, copy, n, NULL), CAIRN_DATA_LOSS);
	}
	assert_int_equal(repo_crypt_open(crypt, sealed, sizeof(sealed), NULL), 0);
	assert_memory_equal(sealed + REPO_IV_SIZE, plain, sizeof(plain));
}

static void configs_of_other_versions_are_refused(void **state)
{
	static const struct {
		const char *json;
		int code;
	} cases[] = {
		{"{\"version\":1,\"id\":\"x\"}", CAIRN_UNIMPLEMENTED},
		{"{\"version\":3}", CAIRN_UNIMPLEMENTED},
		{"{\"version\":2,\"id\":\"12\"}", CAIRN_DATA_LOSS},
		{"{\"version\":\"2\"}", CAIRN_DATA_LOSS},
		{"[]", CAIRN_DATA_LOSS},
		{"", CAIRN_DATA_LOSS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_config config;

		assert_code(repo_config_decode(cases[i].json, strlen(cases[i].json), &config, NULL),
			    cases[i].code);
	}
}

static void polynomials_are_irreducible_and_of_the_right_degree(void **state)
{
	uint64_t poly;

	(void)state;
	assert_true(repo_poly_irreducible(0x7));              /* x^2 + x + 1 */
	assert_false(repo_poly_irreducible(0x5));             /* (x + 1)^2 */
	assert_true(repo_poly_irreducible(0x3DA3358B4DC173)); /* restic's example */
	assert_false(repo_poly_irreducible(0x3DA3358B4DC172));
	assert_int_equal(repo_poly_random(&poly, NULL), 0);
	assert_int_equal(63 - __builtin_clzll(poly), REPO_POLY_DEGREE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_file_of_restic_opens),
		cmocka_unit_test(a_config_of_restic_is_read),
		cmocka_unit_test(a_wrong_password_is_told_from_damage),
		cmocka_unit_test(a_key_file_may_not_ask_for_too_much),
		cmocka_unit_test(a_key_file_of_ours_comes_back),
		cmocka_unit_test(every_flipped_bit_of_an_envelope_is_found),
		cmocka_unit_test(configs_of_other_versions_are_refused),
		cmocka_unit_test(polynomials_are_irreducible_and_of_the_right_degree),
	};

	return cmocka_run_group_tests_name("repo/key", tests, NULL, NULL);
}
