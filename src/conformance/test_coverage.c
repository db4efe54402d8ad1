/* SPDX-License-Identifier: Apache-2.0 */

/* No written or changed block is missing. */

#include <inttypes.h>

#include "base/err.h"
#include "conformance/delta_check.h"

static void list_and_check(struct suite *suite, struct verdict *v, const struct listing_request *r,
			   unsigned kinds, bool gone_too)
{
	struct listing l;

	if (conformance_check_get(suite, v, r, &l))
		conformance_check_covers(suite, v, &l, kinds, gone_too);
	conformance_listing_free(&l);
}

static void allocated_first(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r = {0};

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	r.target = suite->scene.first->id;
	list_and_check(suite, v, &r, SCENE_WRITTEN, true);
}

static void allocated_later(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r;

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	r = conformance_check_request(suite, CHECK_ALLOCATED);
	list_and_check(suite, v, &r, SCENE_WRITTEN | SCENE_NEW, false);
}

static void delta_kind(struct suite *suite, struct verdict *v, int kind)
{
	struct listing_request r;

	if (!conformance_check_main(suite, v))
		return;
	if (kind == SCENE_DISCARDED && suite->scene.no_discard) {
		conformance_verdict_skip(v, "the device takes no discard");
		return;
	}
	r = conformance_check_request(suite, CHECK_DELTA);
	list_and_check(suite, v, &r, (unsigned)kind, false);
}

static void delta_from_empty(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r;

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	r = conformance_check_request(suite, CHECK_DELTA);
	r.base = suite->scene.empty->id;
	list_and_check(suite, v, &r, SCENE_WRITTEN | SCENE_NEW, false);
}

static void delta_of_nothing(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r = {0};
	struct listing l;

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	r.base = suite->scene.second->id;
	r.target = suite->scene.same->id;
	if (conformance_check_get(suite, v, &r, &l)) {
		if (l.n_messages == 0)
			conformance_verdict_fail(v, "%s: no message, so no capacity and no type",
						 l.label);
		if (l.n_tuples > 0)
			conformance_verdict_note(v, "%s: %zu tuples although nothing was written",
						 l.label, l.n_tuples);
	}
	conformance_listing_free(&l);
}

static void same_snapshot(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r;
	struct listing l;

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	r = conformance_check_request(suite, CHECK_DELTA);
	r.base = r.target;
	conformance_listing_get(&suite->target, &r, &l);
	if (l.code == CAIRN_INVALID)
		conformance_verdict_note(v, "refused with INVALID_ARGUMENT, which the text allows");
	else if (l.code != 0)
		conformance_verdict_fail(v, "%s: %s: %s", l.label, cairn_code_name(l.code),
					 l.err.msg);
	else if (l.n_tuples > 0)
		conformance_verdict_fail(v, "%s: %zu tuples between a snapshot and itself", l.label,
					 l.n_tuples);
	conformance_listing_free(&l);
}

static void delta_grown(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r = {0};
	struct listing l;
	uint64_t start, end, at;

	(void)arg;
	if (!conformance_check_grown(suite, v))
		return;
	r.base = suite->scene.before_growth->id;
	r.target = suite->scene.after_growth->id;
	start = suite->scene.grown_range.offset;
	end = start + suite->scene.grown_range.length;
	if (conformance_check_get(suite, v, &r, &l)) {
		at = conformance_listing_uncovered(&l, start, end);
		if (at < end)
			conformance_verdict_fail(
				v, "%s: byte %" PRIu64 ", in what was added, is not reported",
				l.label, at);
	}
	conformance_listing_free(&l);
}

const struct suite_test suite_coverage_tests[] = {
	{"allocated.covers-written", "7", allocated_first, 0},
	{"allocated.covers-after-changes", "7", allocated_later, 0},
	{"delta.covers-new", "7", delta_kind, SCENE_NEW},
	{"delta.covers-overwritten", "7", delta_kind, SCENE_OVERWRITTEN},
	{"delta.covers-zeroed", "7", delta_kind, SCENE_ZEROED},
	{"delta.covers-discarded", "7", delta_kind, SCENE_DISCARDED},
	{"delta.covers-one-byte", "7", delta_kind, SCENE_ONE_BYTE},
	{"delta.covers-from-empty", "7", delta_from_empty, 0},
	{"delta.covers-grown", "7", delta_grown, 0},
	{"delta.nothing-changed", "practice", delta_of_nothing, 0},
	{"delta.same-snapshot", "7", same_snapshot, 0},
	{.name = NULL},
};
