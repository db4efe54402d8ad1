/* SPDX-License-Identifier: Apache-2.0 */

/* Rules that hold for every stream. */

#include <inttypes.h>

#include "conformance/delta_check.h"

#define MESSAGE_LIMIT (4U << 20) /* default limit of gRPC clients */
#define MESSAGE_WISE  (1U << 20)

static bool add_stream(struct suite *suite, struct verdict *v, const struct snapshot *base,
		       const struct snapshot *target, int32_t max_results)
{
	struct listing_request r = {
		.base = base ? base->id : NULL, .target = target->id, .max_results = max_results};
	size_t i = suite->n_streams++;

	suite->stream_sizes[i] = target->size;
	return conformance_check_get(suite, v, &r, &suite->streams[i]);
}

/* Reads streams of all kinds, once for all tests. */
static bool test_stream_streams(struct suite *suite, struct verdict *v)
{
	static const int32_t max_results[] = {0, 2, INT32_MAX};
	const struct scene *scene = &suite->scene;
	bool ok = true;

	if (suite->n_streams > 0)
		return true;
	if (!conformance_check_main(suite, v))
		return false;
	for (size_t i = 0; i < sizeof(max_results) / sizeof(max_results[0]); i++) {
		ok = add_stream(suite, v, NULL, scene->second, max_results[i]) && ok;
		ok = add_stream(suite, v, scene->first, scene->second, max_results[i]) && ok;
		ok = add_stream(suite, v, scene->empty, scene->second, max_results[i]) && ok;
	}
	ok = add_stream(suite, v, NULL, scene->empty, 0) && ok;
	return add_stream(suite, v, scene->second, scene->same, 0) && ok;
}

/* A rule records in the verdict where a stream violates it. */
typedef void stream_rule(const struct listing *l, uint64_t size, struct verdict *v);

static void first_message(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	if (l->n_messages == 0)
		conformance_verdict_fail(v, "%s: ended with OK and without a message", l->label);
}

static void type_known(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	if (l->n_messages > 0 && l->messages[0].type != LISTING_TYPE_FIXED &&
	    l->messages[0].type != LISTING_TYPE_VARIABLE)
		conformance_verdict_fail(v, "%s: block_metadata_type is %" PRIu64, l->label,
					 l->messages[0].type);
}

static void type_constant(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 1; i < l->n_messages; i++) {
		if (l->messages[i].type != l->messages[0].type) {
			conformance_verdict_fail(
				v, "%s: message %zu has type %" PRIu64 ", the first %" PRIu64,
				l->label, i, l->messages[i].type, l->messages[0].type);
			return;
		}
	}
}

static void capacity_constant(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 1; i < l->n_messages; i++) {
		if (l->messages[i].capacity != l->messages[0].capacity) {
			conformance_verdict_fail(
				v, "%s: message %zu has capacity %" PRId64 ", the first %" PRId64,
				l->label, i, l->messages[i].capacity, l->messages[0].capacity);
			return;
		}
	}
}

static void capacity_right(const struct listing *l, uint64_t size, struct verdict *v)
{
	/* size_bytes of a snapshot may be unknown: then use the volume's. */
	if (size && l->n_messages > 0 && l->messages[0].capacity != (int64_t)size)
		conformance_verdict_fail(v,
					 "%s: capacity is %" PRId64 ", the snapshot has %" PRIu64,
					 l->label, l->messages[0].capacity, size);
}

static void test_stream_ascending(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 1; i < l->n_tuples; i++) {
		if (l->tuples[i].offset <= l->tuples[i - 1].offset) {
			conformance_verdict_fail(v,
						 "%s: tuple %zu (message %zu) begins at %" PRId64
						 ", the one before at %" PRId64,
						 l->label, i, l->tuples[i].message,
						 l->tuples[i].offset, l->tuples[i - 1].offset);
			return;
		}
	}
}

/* Finds ascending tuples that overlap; wrong order has its own test. */
static void no_overlap(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 1; i < l->n_tuples; i++) {
		const struct listing_tuple *a = &l->tuples[i - 1], *b = &l->tuples[i];

		if (b->offset >= a->offset && b->offset - a->offset < a->size) {
			conformance_verdict_fail(v,
						 "%s: tuple %zu (message %zu) begins at %" PRId64
						 " within the one before, %" PRId64 "+%" PRId64,
						 l->label, i, b->message, b->offset, a->offset,
						 a->size);
			return;
		}
	}
}

static void size_positive(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 0; i < l->n_tuples; i++) {
		if (l->tuples[i].size <= 0) {
			conformance_verdict_fail(
				v, "%s: tuple %zu at %" PRId64 " has size %" PRId64, l->label, i,
				l->tuples[i].offset, l->tuples[i].size);
			return;
		}
	}
}

/* A last block of fixed length may extend past the end, but not begin there. */
static void within_capacity(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 0; i < l->n_tuples; i++) {
		const struct listing_tuple *t = &l->tuples[i];
		const struct listing_message *m = &l->messages[t->message];
		bool past = t->offset >= m->capacity || t->offset < 0;

		if (!past && m->type != LISTING_TYPE_FIXED)
			past = t->size > m->capacity - t->offset;
		if (past) {
			conformance_verdict_fail(v,
						 "%s: tuple %zu, %" PRId64 "+%" PRId64
						 ", is not within the capacity of %" PRId64,
						 l->label, i, t->offset, t->size, m->capacity);
			return;
		}
	}
}

static void fixed_length(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	if (l->n_messages == 0 || l->messages[0].type != LISTING_TYPE_FIXED)
		return;
	for (size_t i = 1; i < l->n_tuples; i++) {
		if (l->tuples[i].size != l->tuples[0].size) {
			conformance_verdict_fail(v,
						 "%s: FIXED_LENGTH, but tuple %zu at %" PRId64
						 " has size %" PRId64 " and the first %" PRId64,
						 l->label, i, l->tuples[i].offset,
						 l->tuples[i].size, l->tuples[0].size);
			return;
		}
	}
}

static void message_size(const struct listing *l, uint64_t size, struct verdict *v)
{
	(void)size;
	for (size_t i = 0; i < l->n_messages; i++) {
		if (l->messages[i].bytes > MESSAGE_LIMIT)
			conformance_verdict_fail(
				v, "%s: message %zu has %zu bytes, clients take 4 MiB", l->label, i,
				l->messages[i].bytes);
		else if (l->messages[i].bytes > MESSAGE_WISE)
			conformance_verdict_note(v, "%s: message %zu has %zu bytes", l->label, i,
						 l->messages[i].bytes);
	}
}

static stream_rule *const rules[] = {
	first_message,         type_known, type_constant, capacity_constant, capacity_right,
	test_stream_ascending, no_overlap, size_positive, within_capacity,   fixed_length,
	message_size,
};

static void run_rule(struct suite *suite, struct verdict *v, int rule)
{
	if (!test_stream_streams(suite, v))
		return;
	for (size_t i = 0; i < suite->n_streams; i++)
		rules[rule](&suite->streams[i], suite->stream_sizes[i], v);
	if (rules[rule] == fixed_length && suite->streams[0].n_messages > 0 &&
	    suite->streams[0].messages[0].type != LISTING_TYPE_FIXED)
		conformance_verdict_note(v, "the driver reports VARIABLE_LENGTH");
}

/* A snapshot keeps its size when its volume grows. */
static void capacity_kept(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r = {0};
	struct listing l;

	(void)arg;
	if (!conformance_check_grown(suite, v))
		return;
	r.target = suite->scene.before_growth->id;
	if (conformance_check_get(suite, v, &r, &l))
		capacity_right(&l, suite->scene.before_growth->size, v);
	conformance_listing_free(&l);
	r.base = suite->scene.before_growth->id;
	r.target = suite->scene.after_growth->id;
	if (conformance_check_get(suite, v, &r, &l))
		capacity_right(&l, suite->scene.after_growth->size, v);
	conformance_listing_free(&l);
}

const struct suite_test suite_stream_tests[] = {
	{"stream.first-message", "practice", run_rule, 0},
	{"stream.type-known", "2", run_rule, 1},
	{"stream.type-constant", "2", run_rule, 2},
	{"stream.capacity-constant", "2", run_rule, 3},
	{"stream.capacity-is-the-snapshots", "2", run_rule, 4},
	{"stream.capacity-kept-after-growth", "2", capacity_kept, 0},
	{"stream.ascending", "1", run_rule, 5},
	{"stream.no-overlap", "1", run_rule, 6},
	{"stream.size-positive", "1", run_rule, 7},
	{"stream.within-capacity", "1", run_rule, 8},
	{"stream.fixed-length", "2", run_rule, 9},
	{"stream.message-size", "practice", run_rule, 10},
	{.name = NULL},
};
