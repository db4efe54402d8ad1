/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "cairntest.h"
#include "pool/store/store.h"
#include "store_helper.h"

#define UNITS 256U

/* A map given as an array. */
struct array_source {
	struct mapping_source source;
	const struct mapping *list;
	size_t n, at;
	size_t batch; /* delivered at a time */
	int fail_with;
};

static int array_next(struct mapping_source *source, struct mapping *out, size_t max, size_t *ret_n,
		      struct cairn_err *err)
{
	struct array_source *a = (struct array_source *)source;
	size_t n = 0;

	if (a->fail_with && a->at == a->n)
		return cairn_err_set(err, a->fail_with, "no more");
	while (n < max && n < a->batch && a->at < a->n)
		out[n++] = a->list[a->at++];
	*ret_n = n;
	return 0;
}

static struct array_source source_of(const struct mapping *list, size_t n, size_t batch)
{
	return (struct array_source){{array_next}, list, n, 0, batch, 0};
}

static int compare(struct array_source *base, uint64_t base_size, struct array_source *target,
		   uint64_t target_size, uint64_t budget, struct collected *c)
{
	struct mapping_compare *m = malloc(sizeof(*m));
	struct extent_merge joiner = {.sink = collected_sink(c)};
	bool done = false;
	int rc = 0;

	assert_non_null(m);
	pool_mapping_compare_init(m, &base->source, base_size, &target->source, target_size);
	while (rc == 0 && !done)
		rc = pool_mapping_compare_run(m, budget, &joiner, NULL, &done, NULL);
	rc = rc ? rc : pool_extent_merge_flush(&joiner, NULL);
	free(m);
	return rc;
}

static void kinds_compare_as_they_should(void **state)
{
	static const struct {
		struct mapping base, target;
		bool changed, zero;
	} cases[] = {
		{{0, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 1, 7, MAPPING_DATA}, false, false},
		{{0, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 1, 8, MAPPING_DATA}, true, false},
		{{0, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 2, 7, MAPPING_DATA}, true, false},
		{{0, 4096, 1, 7, MAPPING_OPAQUE}, {0, 4096, 1, 7, MAPPING_OPAQUE}, true, false},
		{{0, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 1, 7, MAPPING_OPAQUE}, true, false},
		{{0, 4096, 1, 7, MAPPING_ZERO}, {0, 4096, 9, 9, MAPPING_ZERO}, false, false},
		{{0, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 1, 7, MAPPING_ZERO}, true, true},
		{{0, 4096, 0, 0, MAPPING_ZERO}, {0, 4096, 0, 0, MAPPING_DATA}, true, false},
		{{8192, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 0, 0, MAPPING_ZERO}, false, false},
		{{8192, 4096, 1, 7, MAPPING_DATA}, {0, 4096, 1, 7, MAPPING_DATA}, true, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct array_source b = source_of(&cases[i].base, 1, 1);
		struct array_source t = source_of(&cases[i].target, 1, 1);
		struct collected c = {0};

		assert_int_equal(compare(&b, 4096, &t, 4096, UINT64_MAX, &c), 0);
		assert_int_equal(c.n, cases[i].changed ? 1 : 0);
		if (c.n > 0) {
			assert_int_equal(c.list[0].length, 4096);
			assert_int_equal(c.list[0].zero, cases[i].zero);
		}
		collected_done(&c);
	}
}

/* A random map over UNITS units, and beside it what each unit holds: 0 zeros,
 * UINT32_MAX opaque, else the place. */
static size_t random_map(struct mapping *list, uint32_t *truth, unsigned *seed)
{
	uint64_t at = 0;
	size_t n = 0;

	memset(truth, 0, UNITS * sizeof(*truth));
	while (at < UNITS) {
		uint64_t length = 1 + (uint64_t)rand_r(seed) % 6;
		int what = rand_r(seed) % 8;
		uint64_t inner = (uint64_t)(rand_r(seed) % 2) * 1000 + at;

		if (at + length > UNITS)
			length = UNITS - at;
		for (uint64_t i = 0; i < length; i++)
			truth[at + i] = what == 0   ? 0
					: what == 1 ? UINT32_MAX
					: what == 2 ? 0
						    : (uint32_t)(inner + i) + 1;
		if (what != 0)
			list[n++] = (struct mapping){at, length, 1, inner,
						     what == 1   ? MAPPING_OPAQUE
						     : what == 2 ? MAPPING_ZERO
								 : MAPPING_DATA};
		at += length;
	}
	return n;
}

static void a_comparison_of_maps_is_that_of_their_units(void **state)
{
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		struct mapping base[UNITS], target[UNITS];
		uint32_t base_truth[UNITS], target_truth[UNITS];
		size_t nb = random_map(base, base_truth, &seed);
		size_t nt = random_map(target, target_truth, &seed);
		uint64_t base_size = UNITS - (uint64_t)rand_r(&seed) % 20;
		uint64_t target_size = UNITS - (uint64_t)rand_r(&seed) % 20;
		struct array_source b = source_of(base, nb, 1 + (size_t)rand_r(&seed) % 9);
		struct array_source t = source_of(target, nt, 1 + (size_t)rand_r(&seed) % 9);
		uint64_t budget = round % 2 ? UINT64_MAX : 1 + (uint64_t)rand_r(&seed) % 30;
		struct collected c = {0};

		assert_int_equal(compare(&b, base_size, &t, target_size, budget, &c), 0);
		for (uint64_t i = 0; i < UNITS; i++) {
			bool want = i < target_size &&
				    (i >= base_size || base_truth[i] != target_truth[i] ||
				     target_truth[i] == UINT32_MAX);

			assert_int_equal(covers(&c, i, 1), want);
		}
		for (size_t i = 0; i < c.n; i++)
			for (uint64_t u = c.list[i].offset; u < block_extent_end(&c.list[i]); u++)
				assert_int_equal(c.list[i].zero, target_truth[u] == 0);
		collected_done(&c);
	}
}

static void allocated_leaves_zeros_out_and_joins(void **state)
{
	static const struct mapping list[] = {
		{0, 4, 0, 0, MAPPING_DATA},   {4, 4, 0, 90, MAPPING_DATA},
		{8, 4, 0, 0, MAPPING_ZERO},   {12, 4, 0, 0, MAPPING_OPAQUE},
		{20, 10, 0, 0, MAPPING_DATA},
	};
	struct array_source s = source_of(list, ARRAY_LEN(list), 2);
	struct block_extent out[8];
	size_t n;

	(void)state;
	assert_int_equal(pool_mapping_allocated(&s.source, 2, 25, out, 8, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_int_equal(out[0].offset, 2);
	assert_int_equal(out[0].length, 6);
	assert_int_equal(out[1].offset, 12);
	assert_int_equal(out[2].offset, 20);
	assert_int_equal(out[2].length, 5);
	s = source_of(list, ARRAY_LEN(list), 2);
	assert_int_equal(pool_mapping_allocated(&s.source, 0, 25, out, 1, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(out[0].length, 8);
}

static void errors_end_a_comparison(void **state)
{
	static const struct mapping one = {0, 4096, 1, 7, MAPPING_DATA};
	struct array_source b = source_of(&one, 1, 1), t = source_of(&one, 1, 1);
	struct collected c = {0};

	(void)state;
	t.fail_with = CAIRN_DATA_LOSS;
	assert_code(compare(&b, 8192, &t, 8192, UINT64_MAX, &c), CAIRN_DATA_LOSS);
	b = source_of(&one, 0, 1);
	t = source_of(&one, 1, 1);
	c.fail_with = CAIRN_NO_SPACE;
	assert_code(compare(&b, 8192, &t, 8192, UINT64_MAX, &c), CAIRN_NO_SPACE);
}

/* A filesystem that moves extents: what a file has depends on the time. */
struct moving {
	struct mapping_source source;
	const uint64_t (*places)[2]; /* by unit: before and after */
	uint64_t at;
	struct moving_pair *pair;
};

struct moving_pair {
	struct moving base, target;
	uint64_t epoch;
	unsigned reads, moves_at; /* the extents move before the read of that number */
	bool always;              /* they never stop */
};

#define MOVED_UNITS 4U
#define UNIT_BYTES  4096U

static int moving_next(struct mapping_source *source, struct mapping *out, size_t max,
		       size_t *ret_n, struct cairn_err *err)
{
	struct moving *m = (struct moving *)source;

	(void)max;
	(void)err;
	*ret_n = m->at < MOVED_UNITS;
	if (*ret_n == 0)
		return 0;
	if (++m->pair->reads == m->pair->moves_at)
		m->pair->epoch++;
	out[0] = (struct mapping){.offset = m->at * UNIT_BYTES,
				  .length = UNIT_BYTES,
				  .place = m->places[m->at][m->pair->epoch > 0],
				  .kind = MAPPING_DATA};
	m->at++;
	return 0;
}

static int moving_epoch(void *arg, uint64_t *ret, struct cairn_err *err)
{
	struct moving_pair *pair = arg;

	(void)err;
	pair->epoch += pair->always;
	*ret = pair->epoch;
	return 0;
}

static int moving_restart(void *arg, uint64_t start, uint64_t end, struct cairn_err *err)
{
	struct moving_pair *pair = arg;

	(void)end;
	(void)err;
	pair->base.at = pair->target.at = start / UNIT_BYTES;
	return 0;
}

static void compare_moving(struct moving_pair *pair, struct collected *c)
{
	const struct mapping_guard guard = {moving_epoch, moving_restart, pair};
	struct mapping_compare *m = malloc(sizeof(*m));
	struct extent_merge joiner = {.sink = collected_sink(c)};
	bool done;

	assert_non_null(m);
	pair->base.source.next = pair->target.source.next = moving_next;
	pair->base.pair = pair->target.pair = pair;
	pool_mapping_compare_init(m, &pair->base.source, (uint64_t)MOVED_UNITS * UNIT_BYTES,
				  &pair->target.source, (uint64_t)MOVED_UNITS * UNIT_BYTES);
	assert_int_equal(pool_mapping_compare_set_guard(m, &guard, NULL), 0);
	assert_int_equal(pool_mapping_compare_run(m, UINT64_MAX, &joiner, NULL, &done, NULL), 0);
	assert_int_equal(pool_extent_merge_flush(&joiner, NULL), 0);
	free(m);
}

/* Unit 2 differs. Base has it at 102; after the move base is elsewhere, and the target
 * has it there. Read before and after, they look the same. */
static const uint64_t moving_base[MOVED_UNITS][2] = {
	{100, 200}, {101, 201}, {102, 202}, {103, 203}};
static const uint64_t moving_target[MOVED_UNITS][2] = {
	{100, 200}, {101, 201}, {302, 102}, {103, 203}};

/* The process may be stopped between any two reads for any time. */
static void an_address_that_is_used_again_is_not_taken_for_the_same(void **state)
{
	(void)state;
	for (unsigned moves_at = 1; moves_at <= 8; moves_at++) {
		struct moving_pair pair = {.base.places = moving_base,
					   .target.places = moving_target,
					   .moves_at = moves_at};
		struct collected c = {0};

		compare_moving(&pair, &c);
		assert_int_equal(c.n, 1);
		assert_int_equal(c.list[0].offset, 2 * UNIT_BYTES);
		assert_int_equal(c.list[0].length, UNIT_BYTES);
		collected_done(&c);
	}
}

static void what_never_stops_moving_counts_as_changed(void **state)
{
	struct moving_pair pair = {
		.base.places = moving_base, .target.places = moving_target, .always = true};
	struct collected c = {0};

	(void)state;
	compare_moving(&pair, &c);
	assert_int_equal(c.n, 1);
	assert_int_equal(c.list[0].length, MOVED_UNITS * UNIT_BYTES);
	collected_done(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_that_is_used_again_is_not_taken_for_the_same),
		cmocka_unit_test(what_never_stops_moving_counts_as_changed),
		cmocka_unit_test(kinds_compare_as_they_should),
		cmocka_unit_test(a_comparison_of_maps_is_that_of_their_units),
		cmocka_unit_test(allocated_leaves_zeros_out_and_joins),
		cmocka_unit_test(errors_end_a_comparison),
	};

	return cmocka_run_group_tests_name("pool/mapping", tests, NULL, NULL);
}
