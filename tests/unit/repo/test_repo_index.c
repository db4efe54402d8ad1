/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/crypt.h"
#include "repo/index.h"
#include "repo/index_file.h"
#include "repo/pack_header.h"

static struct repo_id id_of(uint64_t n)
{
	struct repo_id id;

	assert_true(repo_id_of(&n, sizeof(n), &id));
	return id;
}

static struct repo_pack_blob blob_of(uint64_t n, uint32_t offset, uint8_t type)
{
	return (struct repo_pack_blob){.id = id_of(n),
				       .offset = offset,
				       .length = 100,
				       .plain = n % 2 ? 500 : 0,
				       .type = type};
}

static void a_blob_is_found_by_type_and_id(void **state)
{
	cairn_cleanup(repo_index_freep) struct repo_index *index = repo_index_new();
	struct repo_pack_blob data = blob_of(1, 40, REPO_BLOB_DATA);
	struct repo_id pack = id_of(77), other = id_of(2);
	struct cairn_err err = {0};
	struct repo_place place;
	uint32_t number;

	(void)state;
	assert_false(repo_index_find(index, REPO_BLOB_DATA, &data.id, &place));
	assert_ok(repo_index_pack(index, &pack, REPO_PACK_INDEXED, &number, NULL, &err), &err);
	assert_ok(repo_index_add(index, number, &data, false, &err), &err);
	assert_true(repo_index_find(index, REPO_BLOB_DATA, &data.id, &place));
	assert_true(repo_id_equal(&place.pack_id, &pack));
	assert_int_equal(place.offset, 40);
	assert_int_equal(place.length, 100);
	assert_int_equal(repo_place_size(&place), 500);
	assert_false(repo_index_find(index, REPO_BLOB_TREE, &data.id, &place));
	assert_false(repo_index_find(index, REPO_BLOB_DATA, &other, &place));
}

static void the_same_place_is_kept_once_and_another_one_too(void **state)
{
	cairn_cleanup(repo_index_freep) struct repo_index *index = repo_index_new();
	struct repo_pack_blob blob = blob_of(1, 0, REPO_BLOB_DATA);
	struct repo_id packs[2] = {id_of(10), id_of(11)};
	uint32_t numbers[2];
	bool known;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(repo_index_pack(index, &packs[i], REPO_PACK_INDEXED, &numbers[i],
						 &known, NULL),
				 0);
	assert_false(known);
	assert_int_equal(
		repo_index_pack(index, &packs[0], REPO_PACK_INDEXED, &numbers[0], &known, NULL), 0);
	assert_true(known);
	assert_int_equal(repo_index_add(index, numbers[0], &blob, false, NULL), 0);
	assert_int_equal(repo_index_add(index, numbers[0], &blob, false, NULL), 0);
	assert_int_equal(repo_index_entries(index), 1);
	assert_int_equal(repo_index_add(index, numbers[1], &blob, false, NULL), 0);
	assert_int_equal(repo_index_entries(index), 2);
	assert_int_equal(repo_index_packs(index), 2);
}

#define MANY 300000U

static void a_blob_takes_sixty_bytes_at_most(void **state)
{
	cairn_cleanup(repo_index_freep) struct repo_index *index = repo_index_new();
	struct repo_place place;
	uint32_t pack = 0;

	(void)state;
	for (uint32_t i = 0; i < MANY; i++) {
		struct repo_pack_blob blob = blob_of(i, i % 1000 * 100, REPO_BLOB_DATA);
		struct repo_id id = id_of((uint64_t)1 << 40 | i / 1000);

		if (i % 1000 == 0)
			assert_int_equal(
				repo_index_pack(index, &id, REPO_PACK_INDEXED, &pack, NULL, NULL),
				0);
		assert_int_equal(repo_index_add(index, pack, &blob, false, NULL), 0);
	}
	assert_int_equal(repo_index_entries(index), MANY);
	assert_in_range(repo_index_memory(index) / MANY, 48, 60);
	for (uint32_t i = 0; i < MANY; i += 7) {
		struct repo_id id = id_of(i);

		assert_true(repo_index_find(index, REPO_BLOB_DATA, &id, &place));
		assert_int_equal(place.offset, i % 1000 * 100);
	}
}

#define RACES 20000U

struct race {
	struct repo_index *index;
	atomic_uint won;
};

static void *reserve_all(void *arg)
{
	struct race *race = arg;

	for (uint32_t i = 0; i < RACES; i++) {
		struct repo_id id = id_of(i);
		uint32_t entry;
		bool known = true;

		if (repo_index_reserve(race->index, REPO_BLOB_DATA, &id, &entry, &known, NULL) == 0)
			race->won += !known;
	}
	return NULL;
}

static void of_many_threads_one_gets_to_store_a_blob(void **state)
{
	cairn_cleanup(repo_index_freep) struct repo_index *index = repo_index_new();
	struct race race = {.index = index};
	pthread_t threads[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, reserve_all, &race), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(race.won, RACES);
	assert_int_equal(repo_index_entries(index), RACES);
}

static void entries_are_ordered_by_pack_and_offset(void **state)
{
	cairn_cleanup(repo_index_freep) struct repo_index *index = repo_index_new();
	cairn_cleanup(repo_index_order_done) struct repo_index_order order = {0};
	struct repo_id packs[2] = {id_of(10), id_of(11)}, lost = id_of(99);
	struct repo_pack_blob blob;
	uint32_t number, last, entry, pack;
	bool known;

	(void)state;
	for (uint32_t i = 0; i < 40; i++) {
		blob = blob_of(i, (i * 7) % 40 * 100, REPO_BLOB_DATA);
		repo_index_pack(index, &packs[i % 2], REPO_PACK_INDEXED, &number, NULL, NULL);
		assert_int_equal(repo_index_add(index, number, &blob, false, NULL), 0);
	}
	assert_int_equal(repo_index_reserve(index, REPO_BLOB_DATA, &lost, &entry, &known, NULL), 0);
	assert_int_equal(repo_index_sort(index, &order, NULL), 0);
	assert_int_equal(order.packs, 2);
	assert_int_equal(order.starts[2], 40);
	for (uint32_t p = 0; p < 2; p++) {
		last = 0;
		for (uint32_t i = order.starts[p]; i < order.starts[p + 1]; i++) {
			assert_true(repo_index_at(index, order.order[i], &blob, &pack));
			assert_int_equal(pack, p);
			assert_true(blob.offset >= last);
			last = blob.offset;
		}
	}
	assert_false(repo_index_at(index, entry, &blob, &pack));
}

static void short_memory_is_an_error_and_breaks_nothing(void **state)
{
	(void)state;
	for (size_t fail = 1;; fail++) {
		cairn_cleanup(repo_index_freep) struct repo_index *index = NULL;
		struct repo_pack_blob blob = blob_of(3, 0, REPO_BLOB_TREE);
		struct repo_id pack = id_of(9);
		struct repo_place place;
		uint32_t number;
		int rc;

		cairn_mem_fail_at(fail, 0);
		index = repo_index_new();
		rc = index ? repo_index_pack(index, &pack, REPO_PACK_STORED, &number, NULL, NULL)
			   : CAIRN_NO_SPACE;
		if (rc == 0)
			rc = repo_index_add(index, number, &blob, false, NULL);
		cairn_mem_fail_at(0, 0);
		if (rc == 0) {
			assert_true(repo_index_find(index, REPO_BLOB_TREE, &blob.id, &place));
			assert_true(fail > 3);
			return;
		}
		assert_code(rc, CAIRN_NO_SPACE);
	}
}

/* ---- the two forms in the store ----------------------------------------------- */

static void a_pack_header_comes_back(void **state)
{
	struct repo_pack_blob blobs[3] = {blob_of(1, 0, REPO_BLOB_DATA),
					  blob_of(2, 100, REPO_BLOB_DATA),
					  blob_of(3, 200, REPO_BLOB_TREE)};
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(1000);
	cairn_auto_free struct repo_pack_blob *back = NULL;
	struct cairn_err err = {0};
	size_t n;

	(void)state;
	repo_pack_header_encode(blobs, 3, &out);
	assert_int_equal(out.len, 41 + 37 + 41);
	assert_int_equal(repo_pack_header_size(blobs, 3), out.len + REPO_SEAL + 4);
	assert_ok(repo_pack_header_decode(out.data, out.len, 300, &back, &n, &err), &err);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++) {
		assert_true(repo_id_equal(&back[i].id, &blobs[i].id));
		assert_int_equal(back[i].offset, blobs[i].offset);
		assert_int_equal(back[i].length, blobs[i].length);
		assert_int_equal(back[i].plain, blobs[i].plain);
		assert_int_equal(back[i].type, blobs[i].type);
	}
}

static void a_pack_header_that_does_not_fit_is_refused(void **state)
{
	struct repo_pack_blob blob = blob_of(1, 0, REPO_BLOB_DATA), *back;
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(1000);
	size_t n;

	(void)state;
	repo_pack_header_encode(&blob, 1, &out);
	assert_code(repo_pack_header_decode(out.data, out.len, 99, &back, &n, NULL),
		    CAIRN_DATA_LOSS);
	assert_code(repo_pack_header_decode(out.data, out.len, 101, &back, &n, NULL),
		    CAIRN_DATA_LOSS);
	assert_code(repo_pack_header_decode(out.data, out.len - 1, 100, &back, &n, NULL),
		    CAIRN_DATA_LOSS);
	out.data[0] = 4;
	assert_code(repo_pack_header_decode(out.data, out.len, 100, &back, &n, NULL),
		    CAIRN_DATA_LOSS);
}

struct reading {
	unsigned packs, blobs;
	struct repo_pack_blob last;
};

static int see_pack(void *arg, const struct repo_id *id, struct cairn_err *err)
{
	(void)id;
	(void)err;
	((struct reading *)arg)->packs++;
	return 0;
}

static int see_blob(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err)
{
	struct reading *reading = arg;

	(void)err;
	reading->blobs++;
	reading->last = *blob;
	return 0;
}

static int parse(const char *json, size_t n, struct reading *reading)
{
	const struct repo_index_visitor visitor = {
		.pack = see_pack, .blob = see_blob, .arg = reading};

	*reading = (struct reading){0};
	return repo_index_file_parse(json, n, &visitor, NULL);
}

static void an_index_file_comes_back(void **state)
{
	struct repo_pack_blob blobs[2] = {blob_of(1, 0, REPO_BLOB_DATA),
					  blob_of(2, 100, REPO_BLOB_TREE)};
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(10000);
	struct repo_id pack = id_of(5);
	struct reading reading;

	(void)state;
	repo_index_file_begin(&out);
	repo_index_file_pack(&out, &pack, blobs, 2);
	repo_index_file_pack(&out, &blobs[0].id, blobs, 1);
	repo_index_file_end(&out);
	assert_int_equal(parse((char *)out.data, out.len, &reading), 0);
	assert_int_equal(reading.packs, 2);
	assert_int_equal(reading.blobs, 3);
	assert_int_equal(reading.last.plain, 500);
	for (size_t n = 0; n < out.len; n++)
		assert_code(parse((char *)out.data, n, &reading), CAIRN_DATA_LOSS);
}

#define BLOB_OF(rest) \
	("{\"packs\":[{\"id\":\"" HEX "\",\"blobs\":[{\"id\":\"" HEX "\"," rest "}]}]}")
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void members_of_an_index_may_come_in_any_order(void **state)
{
	static const char json[] =
		"{\"supersedes\":[\"" HEX "\"],\"packs\":[{\"blobs\":[{\"length\":40,\"x\":{},"
		"\"offset\":0,\"type\":\"tree\",\"id\":\"" HEX "\"}],\"id\":\"" HEX "\"}]}";
	struct reading reading;

	(void)state;
	assert_int_equal(parse(json, strlen(json), &reading), 0);
	assert_int_equal(reading.packs, 1);
	assert_int_equal(reading.blobs, 1);
	assert_int_equal(reading.last.type, REPO_BLOB_TREE);
}

static void what_is_no_index_is_refused(void **state)
{
	static const char *const cases[] = {
		"{}",
		"[]",
		"{\"packs\":[{}]}",
		"{\"packs\":[{\"id\":\"12\",\"blobs\":[]}]}",
		("{\"packs\":[{\"id\":\"" HEX "\"}]}"),
		BLOB_OF("\"type\":\"file\",\"offset\":0,\"length\":40"),
		BLOB_OF("\"type\":\"data\",\"offset\":0,\"length\":31"),
		BLOB_OF("\"type\":\"data\",\"offset\":4294967290,\"length\":40"),
		"{\"packs\":[]} x",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct reading reading;

		assert_code(parse(cases[i], strlen(cases[i]), &reading), CAIRN_DATA_LOSS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_blob_is_found_by_type_and_id),
		cmocka_unit_test(the_same_place_is_kept_once_and_another_one_too),
		cmocka_unit_test(a_blob_takes_sixty_bytes_at_most),
		cmocka_unit_test(of_many_threads_one_gets_to_store_a_blob),
		cmocka_unit_test(entries_are_ordered_by_pack_and_offset),
		cmocka_unit_test(short_memory_is_an_error_and_breaks_nothing),
		cmocka_unit_test(a_pack_header_comes_back),
		cmocka_unit_test(a_pack_header_that_does_not_fit_is_refused),
		cmocka_unit_test(an_index_file_comes_back),
		cmocka_unit_test(members_of_an_index_may_come_in_any_order),
		cmocka_unit_test(what_is_no_index_is_refused),
	};

	return cmocka_run_group_tests_name("repo/index", tests, NULL, NULL);
}
