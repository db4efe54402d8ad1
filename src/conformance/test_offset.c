/* SPDX-License-Identifier: Apache-2.0 */

/* starting_offset: from any offset, and from where a stream broke. */

#include <inttypes.h>

#include "base/err.h"
#include "conformance/delta_check.h"

/* Offsets for one test and kind of call, usually and with --thorough. */
#define OFFSETS_USUAL    48U
#define OFFSETS_THOROUGH 65536U

struct offsets {
	uint64_t at[OFFSETS_THOROUGH];
	size_t n, max;
	uint64_t capacity;
};

static void test_offset_add(struct offsets *o, uint64_t offset)
{
	if (o->n < o->max && offset < o->capacity)
		o->at[o->n++] = offset;
}

/* Returns the step through `n` items, with `each` offsets per item, such that all fit. */
static size_t test_offset_every(const struct offsets *o, size_t n, size_t each)
{
	return n / (o->max / each) + 1;
}

/* Chooses starting offsets, given the full listing. */
typedef void offset_choice(const struct listing *full, struct offsets *o);

static void test_offset_aligned(const struct listing *full, struct offsets *o)
{
	size_t blocks = (size_t)(o->capacity / SCENE_BLOCK);

	(void)full;
	for (size_t i = 0; i < blocks; i += test_offset_every(o, blocks, 4))
		test_offset_add(o, (uint64_t)i * SCENE_BLOCK);
	test_offset_add(o, (o->capacity - 1) / SCENE_BLOCK * SCENE_BLOCK);
}

static void test_offset_unaligned(const struct listing *full, struct offsets *o)
{
	static const uint64_t beside[] = {1, 511, 513, 4095, 2048};

	for (size_t i = 0; i < full->n_cover && i < o->max / 8; i++) {
		for (size_t j = 0; j < sizeof(beside) / sizeof(beside[0]); j++)
			test_offset_add(o, full->cover[i].start + beside[j]);
	}
	test_offset_add(o, o->capacity - 1);
	test_offset_add(o, o->capacity / 2 + 1);
}

static void test_offset_inside(const struct listing *full, struct offsets *o)
{
	size_t step = test_offset_every(o, full->n_cover, 3);

	for (size_t i = 0; i < full->n_cover; i += step)
		test_offset_add(o, (full->cover[i].start + full->cover[i].end) / 2);
}

static void test_offset_borders(const struct listing *full, struct offsets *o)
{
	size_t step = test_offset_every(o, full->n_cover, 6);

	for (size_t i = 0; i < full->n_cover; i += step) {
		test_offset_add(o, full->cover[i].start ? full->cover[i].start - 1 : 0);
		test_offset_add(o, full->cover[i].start);
		test_offset_add(o, full->cover[i].start + 1);
		test_offset_add(o, full->cover[i].end - 1);
		test_offset_add(o, full->cover[i].end);
		test_offset_add(o, full->cover[i].end + 1);
	}
}

/* The ends of all tuples in order, from which a caller would resume. */
static void tuple_ends(const struct listing *full, struct offsets *o)
{
	size_t step = test_offset_every(o, full->n_tuples, 1);

	for (size_t i = 0; i < full->n_tuples; i += step)
		test_offset_add(o, (uint64_t)(full->tuples[i].offset + full->tuples[i].size));
}

static offset_choice *const choices[] = {test_offset_aligned, test_offset_unaligned,
					 test_offset_inside, test_offset_borders, tuple_ends};

/* Calls `look` for the streams from all chosen offsets, of both methods. */
static void from_offsets(struct suite *suite, struct verdict *v, offset_choice *choose,
			 void (*look)(const struct suite *suite, struct verdict *v,
				      const struct listing *full, const struct listing *l,
				      uint64_t start))
{
	if (!conformance_check_main(suite, v))
		return;
	for (int pair = 0; pair < CHECK_PAIRS; pair++) {
		struct listing_request r = conformance_check_request(suite, (enum check_pair)pair);
		static struct offsets o; /* too large for a stack; tests run one by one */
		struct listing full, l;

		o.n = 0;
		o.max = suite->thorough ? OFFSETS_THOROUGH : OFFSETS_USUAL;
		o.capacity = suite->scene.volume->size;
		if (conformance_check_get(suite, v, &r, &full))
			choose(&full, &o);
		for (size_t i = 0; i < o.n && v->state == VERDICT_PASS; i++) {
			r.starting_offset = (int64_t)o.at[i];
			if (conformance_check_get(suite, v, &r, &l))
				look(suite, v, &full, &l, o.at[i]);
			conformance_listing_free(&l);
		}
		conformance_listing_free(&full);
	}
}

static void same_rest(struct suite *suite, struct verdict *v, int choice)
{
	from_offsets(suite, v, choices[choice], conformance_check_same);
}

static void look_before(const struct suite *suite, struct verdict *v, const struct listing *full,
			const struct listing *l, uint64_t start)
{
	(void)suite;
	(void)full;
	for (size_t i = 0; i < l->n_tuples; i++) {
		const struct listing_tuple *t = &l->tuples[i];

		if (t->offset + t->size <= (int64_t)start) {
			conformance_verdict_fail(v,
						 "%s: tuple %zu, %" PRId64 "+%" PRId64
						 ", ends at or before the start",
						 l->label, i, t->offset, t->size);
			return;
		}
	}
}

static void nothing_before(struct suite *suite, struct verdict *v, int choice)
{
	from_offsets(suite, v, choices[choice], look_before);
}

static void at_size(struct suite *suite, struct verdict *v, int pair)
{
	struct listing_request r;
	struct listing l;

	if (!conformance_check_main(suite, v))
		return;
	r = conformance_check_request(suite, (enum check_pair)pair);
	r.starting_offset = (int64_t)suite->scene.volume->size;
	conformance_listing_get(&suite->target, &r, &l);
	if (l.code == 0 && l.n_tuples > 0)
		conformance_verdict_fail(v, "%s: %zu tuples behind the end", l.label, l.n_tuples);
	else if (l.code == CAIRN_RANGE)
		conformance_verdict_note(
			v, "OUT_OF_RANGE, which the text allows: a resume after the last "
			   "block ends so");
	else if (l.code != 0)
		conformance_verdict_fail(v, "%s: %s: %s; OK or OUT_OF_RANGE was expected", l.label,
					 cairn_code_name(l.code), l.err.msg);
	conformance_listing_free(&l);
}

static void test_offset_refused(struct suite *suite, struct verdict *v, const int *codes,
				const int64_t *offsets, size_t n)
{
	for (int pair = 0; pair < CHECK_PAIRS; pair++) {
		for (size_t i = 0; i < n; i++) {
			struct listing_request r =
				conformance_check_request(suite, (enum check_pair)pair);

			r.starting_offset = offsets[i];
			conformance_check_refused(suite, v, &r, codes, 0);
		}
	}
}

static void test_offset_beyond(struct suite *suite, struct verdict *v, int arg)
{
	static const int codes[] = {CAIRN_RANGE, 0};
	int64_t offsets[3] = {0, 0, INT64_MAX};

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	offsets[0] = (int64_t)suite->scene.second->size + 1;
	offsets[1] = (int64_t)suite->scene.second->size + SCENE_BLOCK;
	if (suite->scene.second->size == 0)
		offsets[0] = offsets[1] = INT64_MAX - 1;
	test_offset_refused(suite, v, codes, offsets, 3);
}

static void test_offset_negative(struct suite *suite, struct verdict *v, int arg)
{
	static const int codes[] = {CAIRN_RANGE, CAIRN_INVALID, 0};
	static const int64_t offsets[] = {-1, -(int64_t)SCENE_BLOCK, INT64_MIN};

	(void)arg;
	if (conformance_check_main(suite, v))
		test_offset_refused(suite, v, codes, offsets, 3);
}

const struct suite_test suite_offset_tests[] = {
	{"starting-offset.aligned", "3", same_rest, 0},
	{"starting-offset.unaligned", "3", same_rest, 1},
	{"starting-offset.inside-a-range", "3", same_rest, 2},
	{"starting-offset.at-borders", "3", same_rest, 3},
	{"starting-offset.resume", "6", same_rest, 4},
	{"starting-offset.nothing-before", "3", nothing_before, 3},
	{"starting-offset.at-size-allocated", "errors", at_size, CHECK_ALLOCATED},
	{"starting-offset.at-size-delta", "errors", at_size, CHECK_DELTA},
	{"starting-offset.beyond-size", "errors", test_offset_beyond, 0},
	{"starting-offset.negative", "errors", test_offset_negative, 0},
	{.name = NULL},
};
