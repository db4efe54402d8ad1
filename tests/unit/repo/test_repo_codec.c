/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/codec.h"
#include "repo/entropy.h"
#include "repo/id.h"
#include "repo/sha256_pair.h"

#define LARGE (3U << 20)

static const struct repo_key key = {.encrypt = {1}, .mac_k = {2}, .mac_r = {3}};

struct fixture {
	struct repo_codec_pool pool;
	struct repo_codec *codec;
	uint8_t *data;
};

static void begin(struct fixture *f, int level)
{
	struct cairn_err err = {0};
	uint32_t random = 1;

	repo_codec_pool_init(&f->pool, &key, level);
	assert_ok(repo_codec_get(&f->pool, &f->codec, &err), &err);
	f->data = malloc(LARGE);
	assert_non_null(f->data);
	for (size_t i = 0; i < LARGE; i++) { /* half of it can be compressed */
		random = random * 1664525U + 1013904223U;
		f->data[i] = i % 8192 < 4096 ? (uint8_t)(random >> 24) : 0;
	}
}

static void end(struct fixture *f)
{
	repo_codec_put(&f->pool, f->codec);
	repo_codec_pool_done(&f->pool);
	free(f->data);
}

static uint8_t *encode(struct fixture *f, size_t n, size_t *ret_n)
{
	const uint8_t *sealed;
	uint32_t plain;
	struct cairn_err err = {0};

	assert_ok(repo_codec_encode(f->codec, f->data, n, true, &sealed, ret_n, &plain, &err),
		  &err);
	return (uint8_t *)(uintptr_t)sealed; /* the codec's, to be damaged */
}

static void what_was_encoded_is_what_was_given(void **state)
{
	static const size_t sizes[] = {1, 4096, 65536, 131072, 131073, LARGE};

	(void)state;
	for (int level = -1; level <= 3; level += 2)
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
			struct fixture f;
			struct repo_id id;
			size_t n;
			struct cairn_err err = {0};

			begin(&f, level);
			assert_true(repo_id_of(f.data, sizes[i], &id));
			encode(&f, sizes[i], &n);
			assert_ok(repo_codec_check(f.codec, n, &id, &err), &err);
			end(&f);
		}
}

static void a_bit_that_tips_over_is_found(void **state)
{
	static const size_t places[] = {0, REPO_IV_SIZE, 1000, 40000};

	(void)state;
	for (int level = -1; level <= 3; level += 4)
		for (size_t i = 0; i < ARRAY_LEN(places); i++) {
			struct fixture f;
			struct repo_id id;
			size_t n;

			begin(&f, level);
			assert_true(repo_id_of(f.data, LARGE, &id));
			encode(&f, LARGE, &n)[places[i]] ^= 4;
			assert_code(repo_codec_check(f.codec, n, &id, NULL), CAIRN_DATA_LOSS);
			end(&f);
		}
}

/* Encodes blobs of these sizes one after the other, tips a bit of the one with the number `bad`, and
 * says what checking them together comes to. */
static int check_together(int level, const size_t *sizes, size_t count, size_t bad)
{
	struct fixture f;
	int rc = 0;

	begin(&f, level);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct repo_id id;
		uint8_t *sealed;
		size_t n;

		f.data[0] = (uint8_t)i;
		assert_true(repo_id_of(f.data, sizes[i], &id));
		if (i == bad)
			f.data[sizes[i] - 1] ^= 1;
		sealed = encode(&f, sizes[i], &n);
		assert_non_null(sealed);
		if (i == bad)
			f.data[sizes[i] - 1] ^= 1;
		rc = repo_codec_check_later(f.codec, n, sizes[i], &id, NULL);
	}
	if (rc == 0)
		rc = repo_codec_check_rest(f.codec, NULL);
	assert_int_equal(repo_codec_check_rest(f.codec, NULL), 0);
	end(&f);
	return rc;
}

static void blobs_are_checked_in_pairs(void **state)
{
	static const size_t sizes[] = {4096, 4096, 16384, 4096, 4096, 131072, 131073, 131072, 1};
	const size_t n = ARRAY_LEN(sizes);

	(void)state;
	for (int level = -1; level <= 3; level += 4)
		for (size_t count = 1; count <= n; count++) {
			assert_int_equal(check_together(level, sizes, count, n), 0);
			for (size_t bad = 0; bad < count; bad++)
				assert_int_equal(check_together(level, sizes, count, bad),
						 CAIRN_DATA_LOSS);
		}
}

/* Between its hash and its encoding. */
static void data_that_changed_meanwhile_is_found(void **state)
{
	(void)state;
	for (int level = -1; level <= 3; level += 4) {
		struct fixture f;
		struct repo_id id;
		size_t n;

		begin(&f, level);
		assert_true(repo_id_of(f.data, LARGE, &id));
		f.data[LARGE / 2] ^= 1;
		encode(&f, LARGE, &n);
		assert_code(repo_codec_check(f.codec, n, &id, NULL), CAIRN_DATA_LOSS);
		end(&f);
	}
}

static void short_memory_is_no_fault_of_the_machine(void **state)
{
	static const char json[] = "{}";
	struct fixture f;
	struct cairn_err err = {0};
	const uint8_t *sealed;
	struct repo_id id;
	size_t n;

	(void)state;
	begin(&f, 3);
	assert_true(repo_id_of(f.data, LARGE, &id));
	encode(&f, LARGE, &n);
	cairn_mem_fail_at(1, 0);
	assert_code(repo_codec_check(f.codec, n, &id, NULL), CAIRN_NO_SPACE);
	assert_ok(repo_codec_encode_file(f.codec, json, strlen(json), &sealed, &n, &err), &err);
	for (size_t i = 1; i <= 2; i++) {
		cairn_mem_fail_at(i, 0);
		assert_code(repo_codec_check_file(f.codec, n, json, strlen(json), NULL),
			    CAIRN_NO_SPACE);
	}
	cairn_mem_fail_at(0, 0);
	end(&f);
}

static void files_are_read_again_and_kept(void **state)
{
	static const char json[] = "{\"a\":[1,2,3]}", other[] = "{\"a\":[1,2,4]}";
	struct fixture f;
	struct cairn_err err = {0};
	const uint8_t *sealed;
	size_t n;

	(void)state;
	begin(&f, 3);
	assert_ok(repo_codec_encode_file(f.codec, json, strlen(json), &sealed, &n, &err), &err);
	assert_ok(repo_codec_check_file(f.codec, n, json, strlen(json), &err), &err);
	assert_ok(repo_codec_check_file(f.codec, n, json, strlen(json), &err), &err);
	assert_code(repo_codec_check_file(f.codec, n, other, strlen(other), NULL), CAIRN_DATA_LOSS);
	assert_code(repo_codec_check_file(f.codec, n, json, strlen(json) - 1, NULL),
		    CAIRN_DATA_LOSS);
	((uint8_t *)(uintptr_t)sealed)[n - 1] ^= 1;
	assert_code(repo_codec_check_file(f.codec, n, json, strlen(json), NULL), CAIRN_DATA_LOSS);
	end(&f);
}

/* Fills `n` bytes: random ones, or the same 4 KiB of them again and again. */
static void fill_random(uint8_t *data, size_t n, bool repeat)
{
	uint64_t random = 88172645463325252ULL;

	for (size_t i = 0; i < n; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		data[i] = repeat && i >= 4096 ? data[i - 4096] : (uint8_t)(random >> 32);
	}
}

static void what_cannot_be_compressed_is_stored_as_it_is(void **state)
{
	static const size_t sizes[] = {100, 1024, 4096, 16384, 16385, 65536, LARGE};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t n = sizes[i], sealed_n;
		cairn_auto_free uint8_t *out = malloc(n);
		const uint8_t *sealed;
		struct cairn_err err = {0};
		struct repo_id id;
		struct fixture f;
		uint32_t plain;

		begin(&f, 3);
		fill_random(f.data, n, false);
		assert_true(repo_id_of(f.data, n, &id));
		assert_int_equal(repo_looks_random(f.data, n), n >= 1024);
		assert_ok(repo_codec_encode(f.codec, f.data, n, true, &sealed, &sealed_n, &plain,
					    &err),
			  &err);
		assert_int_equal(plain, 0);
		assert_int_equal(sealed_n, n + REPO_SEAL);
		assert_ok(repo_codec_decode(f.codec, (uint8_t *)(uintptr_t)sealed, sealed_n, plain,
					    out, &err),
			  &err);
		assert_memory_equal(out, f.data, n);
		encode(&f, n, &sealed_n)[REPO_IV_SIZE + n / 2] ^= 1;
		assert_code(repo_codec_check(f.codec, sealed_n, &id, NULL), CAIRN_DATA_LOSS);
		assert_ok(repo_codec_encode(f.codec, f.data, n, false, &sealed, &sealed_n, &plain,
					    &err),
			  &err);
		assert_int_equal(plain, n);
		assert_ok(repo_codec_check(f.codec, sealed_n, &id, &err), &err);
		end(&f);
	}
}

static void what_looks_random_and_repeats_is_compressed(void **state)
{
	const uint8_t *sealed;
	struct cairn_err err = {0};
	struct fixture f;
	uint32_t plain;
	size_t n;

	(void)state;
	begin(&f, 3);
	fill_random(f.data, 16384, true);
	assert_true(repo_looks_random(f.data, 16384));
	assert_ok(repo_codec_encode(f.codec, f.data, 16384, true, &sealed, &n, &plain, &err), &err);
	assert_int_equal(plain, 16384);
	assert_true(n < 8192);
	end(&f);
}

static void two_hashes_at_once_are_those_of_each(void **state)
{
	static uint8_t a[70000], b[70000];

	(void)state;
	fill_random(a, sizeof(a), false);
	memcpy(b, a + 3, sizeof(b) - 3);
	for (size_t n = 0; n <= 65600; n += n < 300 ? 1 : 4073) {
		const void *const data[2] = {a + n % 7, b + n % 5};
		struct repo_id pair[2], each;

		assert_true(repo_id_of_pair(data, n, pair));
		for (int i = 0; i < 2; i++) {
			assert_true(repo_id_of(data[i], n, &each));
			assert_true(repo_id_equal(&pair[i], &each));
		}
	}
}

/* Numbers that grow: random in the low bytes, in columns of eight. */
static void columns_do_not_look_random(void **state)
{
	uint64_t numbers[2048];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		numbers[i] = i * 2654435761U;
	assert_false(repo_looks_random((const uint8_t *)numbers, sizeof(numbers)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_encoded_is_what_was_given),
		cmocka_unit_test(a_bit_that_tips_over_is_found),
		cmocka_unit_test(data_that_changed_meanwhile_is_found),
		cmocka_unit_test(blobs_are_checked_in_pairs),
		cmocka_unit_test(two_hashes_at_once_are_those_of_each),
		cmocka_unit_test(short_memory_is_no_fault_of_the_machine),
		cmocka_unit_test(files_are_read_again_and_kept),
		cmocka_unit_test(what_cannot_be_compressed_is_stored_as_it_is),
		cmocka_unit_test(what_looks_random_and_repeats_is_compressed),
		cmocka_unit_test(columns_do_not_look_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
