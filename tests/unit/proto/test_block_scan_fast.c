/* SPDX-License-Identifier: Apache-2.0 */

/* The scan without a sink, which guesses the layout of tuples, against the scan with a sink,
 * which decodes each tuple by itself, and against protobuf-c. */

#include "cairntest.h"

#include <string.h>

#include "block/extent.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "rng.h"

#define TUPLES_MAX 300
#define ROUNDS     20000

static uint64_t rng_state;

static uint64_t rng(void)
{
	return rng_next(&rng_state);
}

static uint64_t rng_bits(unsigned most)
{
	unsigned bits = 1 + (unsigned)(rng() % most);

	return rng() >> (64 - bits);
}

struct sum {
	uint64_t tuples, bytes, end;
};

static int sum_up(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct sum *sum = arg;

	(void)err;
	sum->tuples++;
	sum->bytes += extent->length;
	sum->end = block_extent_end(extent);
	return 0;
}

/* Tuples of one layout, with other ones between them now and then: one in `odd` on average. */
static size_t write_message(uint8_t *out, size_t cap, uint64_t *at, unsigned odd)
{
	size_t n = 1 + rng() % TUPLES_MAX;
	uint64_t length = 1 + rng_bits(30);
	struct proto_block_writer w;

	proto_block_begin(&w, out, cap, PROTO_BLOCK_VARIABLE, INT64_MAX);
	for (size_t i = 0; i < n; i++) {
		bool differs = odd && rng() % odd == 0;

		assert_true(proto_block_add(&w, *at, differs ? 1 + rng_bits(40) : length));
		*at += differs ? 1ULL << 41 : 1ULL << 31;
	}
	return proto_block_len(&w);
}

static void assert_same(const struct proto_block_scan *a, const struct proto_block_scan *b)
{
	assert_int_equal(a->messages, b->messages);
	assert_int_equal(a->tuples, b->tuples);
	assert_int_equal(a->bytes_reported, b->bytes_reported);
	assert_int_equal(a->end, b->end);
	assert_int_equal(a->capacity, b->capacity);
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->fixed_length, b->fixed_length);
	assert_int_equal(a->lengths_differ, b->lengths_differ);
}

static uint64_t protobuf_c_tuples(const uint8_t *data, size_t n)
{
	Csi__V1__GetMetadataDeltaResponse *m =
		csi__v1__get_metadata_delta_response__unpack(NULL, n, data);
	uint64_t tuples;

	assert_non_null(m);
	tuples = m->n_block_metadata;
	csi__v1__get_metadata_delta_response__free_unpacked(m, NULL);
	return tuples;
}

static void layouts_that_change_are_read_as_one_by_one(void **state)
{
	static const unsigned odds[] = {0, 1, 2, 5, 40, 200};
	static uint8_t out[PROTO_BLOCK_ROOM(TUPLES_MAX)];

	(void)state;
	rng_state = 11;
	for (unsigned round = 0; round < ROUNDS / 10; round++) {
		struct proto_block_scan fast = {0}, slow = {0};
		struct sum sum = {0};
		struct block_sink sink = {.emit = sum_up, .arg = &sum};
		struct cairn_err err = {0};
		uint64_t at = rng_bits(50);

		for (unsigned i = 0; i < 4; i++) {
			size_t n =
				write_message(out, sizeof(out), &at, odds[rng() % ARRAY_LEN(odds)]);
			uint64_t before = fast.tuples;

			assert_ok(proto_block_scan(&fast, out, n, NULL, &err), &err);
			assert_ok(proto_block_scan(&slow, out, n, &sink, &err), &err);
			assert_same(&fast, &slow);
			assert_int_equal(fast.tuples - before, protobuf_c_tuples(out, n));
		}
		assert_int_equal(fast.tuples, sum.tuples);
		assert_int_equal(fast.bytes_reported, sum.bytes);
		assert_int_equal(fast.end, sum.end);
	}
}

/* One bit of a message is flipped, anywhere in a run of one layout. */
static void a_flipped_bit_is_judged_as_one_by_one(void **state)
{
	static uint8_t out[PROTO_BLOCK_ROOM(TUPLES_MAX)];
	unsigned refused = 0;

	(void)state;
	rng_state = 12;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct proto_block_scan fast = {0}, slow = {0};
		struct sum sum = {0};
		struct block_sink sink = {.emit = sum_up, .arg = &sum};
		struct cairn_err fast_err = {0}, slow_err = {0};
		uint64_t at = rng_bits(50);
		size_t n = write_message(out, sizeof(out), &at, 0);
		int rc;

		out[rng() % n] ^= (uint8_t)(1U << (rng() % 8));
		rc = proto_block_scan(&slow, out, n, &sink, &slow_err);
		assert_int_equal(proto_block_scan(&fast, out, n, NULL, &fast_err), rc);
		assert_string_equal(fast_err.msg, slow_err.msg);
		assert_same(&fast, &slow);
		refused += rc != 0;
	}
	assert_true(refused > ROUNDS / 10);
}

/* Each rule that a tuple in the middle of a run can break, with the layout of the others. */
static void a_tuple_of_the_same_layout_breaks_a_rule(void **state)
{
	static const struct {
		int64_t offset, length;
		const char *why;
	} cases[] = {
		{-1, 0, "begins before the last one ends"},
		{0, -4096, "has no size"},
		{1, 0, NULL}, /* the next one begins one byte too early */
	};
	uint8_t out[PROTO_BLOCK_ROOM(100)];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_block_scan scan = {0};
		struct cairn_err err = {0};
		struct proto_block_writer w;
		uint8_t *odd = NULL;

		proto_block_begin(&w, out, sizeof(out), PROTO_BLOCK_VARIABLE, 1ULL << 50);
		for (uint64_t t = 0; t < 100; t++) {
			bool here = t == 50;

			if (here)
				odd = w.pos;
			proto_block_add(&w, (1ULL << 40) + t * 4096 + (here ? cases[i].offset : 0),
					4096);
		}
		if (cases[i].length) { /* 4096 is 80 20; the same two bytes for 0 are 80 00 */
			assert_int_equal(odd[2 + 1 + 6 + 2], 0x20);
			odd[2 + 1 + 6 + 2] = 0;
		}
		assert_int_equal(proto_block_scan(&scan, out, proto_block_len(&w), NULL, &err),
				 CAIRN_INTERNAL);
		assert_non_null(strstr(err.msg, cases[i].why ? cases[i].why : "begins before"));
		assert_int_equal(scan.tuples, cases[i].why ? 50 : 51);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_that_change_are_read_as_one_by_one),
		cmocka_unit_test(a_flipped_bit_is_judged_as_one_by_one),
		cmocka_unit_test(a_tuple_of_the_same_layout_breaks_a_rule),
	};

	return cmocka_run_group_tests_name("proto/block_scan_fast", tests, NULL, NULL);
}
