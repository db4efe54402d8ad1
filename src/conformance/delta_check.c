/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/delta_check.h"

#include <inttypes.h>

#define MISSED_SHOWN 3U

bool conformance_check_main(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (conformance_scene_main(&suite->scene, &err) == 0)
		return true;
	conformance_verdict_fail(v, "the volume and its snapshots cannot be made: %s", err.msg);
	return false;
}

bool conformance_check_grown(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (!suite->target.can_expand)
		conformance_verdict_skip(v, "the driver does not offer EXPAND_VOLUME");
	else if (conformance_scene_grown(&suite->scene, &err) != 0)
		conformance_verdict_fail(v, "a volume cannot be grown: %s", err.msg);
	else
		return true;
	return false;
}

struct listing_request conformance_check_request(const struct suite *suite, enum check_pair pair)
{
	return (struct listing_request){
		.base = pair == CHECK_DELTA ? suite->scene.first->id : NULL,
		.target = suite->scene.second->id,
	};
}

bool conformance_check_get(struct suite *suite, struct verdict *v,
			   const struct listing_request *request, struct listing *ret)
{
	conformance_listing_get(&suite->target, request, ret);
	if (ret->code == 0)
		return true;
	conformance_verdict_fail(v, "%s: %s: %s", ret->label, cairn_code_name(ret->code),
				 ret->err.msg);
	return false;
}

void conformance_check_refused(struct suite *suite, struct verdict *v,
			       const struct listing_request *request, const int *codes,
			       uint64_t limit_ms)
{
	struct listing_request r = *request;
	struct listing l;

	if (limit_ms && limit_ms < suite->target.timeout_ms)
		r.timeout_ms = limit_ms;
	conformance_listing_get(&suite->target, &r, &l);
	for (const int *code = codes; *code; code++) {
		if (l.code == *code && !l.local) {
			conformance_listing_free(&l);
			return;
		}
	}
	if (l.code == 0)
		conformance_verdict_fail(v, "%s: OK with %zu tuples; %s was expected", l.label,
					 l.n_tuples, cairn_code_name(codes[0]));
	else if (l.code == CAIRN_DEADLINE)
		conformance_verdict_fail(v, "%s: no answer; %s was expected at once", l.label,
					 cairn_code_name(codes[0]));
	else
		conformance_verdict_fail(v, "%s: %s (%s); %s was expected", l.label,
					 cairn_code_name(l.code), l.err.msg,
					 cairn_code_name(codes[0]));
	conformance_listing_free(&l);
}

/* Whether a listing of the main volume must contain the range; zeros need not be
 * allocated. */
static bool is_needed(const struct listing *l, const struct scene_range *r)
{
	unsigned changes =
		SCENE_NEW | SCENE_OVERWRITTEN | SCENE_ZEROED | SCENE_DISCARDED | SCENE_ONE_BYTE;

	return l->is_delta ? (r->kind & changes) != 0
			   : (r->kind & (SCENE_WRITTEN | SCENE_NEW)) && !r->gone;
}

/* Finds the first byte from `start` on that is required and not covered. */
static bool find_missed(const struct suite *suite, const struct listing *l, uint64_t start,
			uint64_t *ret)
{
	for (size_t i = 0; i < suite->scene.n_ranges; i++) {
		const struct scene_range *r = &suite->scene.ranges[i];
		uint64_t from = r->offset > start ? r->offset : start;
		uint64_t end = r->offset + r->length;

		if (from >= end || !is_needed(l, r))
			continue;
		*ret = conformance_listing_uncovered(l, from, end);
		if (*ret < end)
			return true;
	}
	return false;
}

void conformance_check_same(const struct suite *suite, struct verdict *v,
			    const struct listing *full, const struct listing *part, uint64_t start)
{
	struct listing_range r;
	uint64_t missed;

	if (find_missed(suite, part, start, &missed))
		conformance_verdict_fail(v, "%s: byte %" PRIu64 " is missing", part->label, missed);
	else if (conformance_listing_missing(full, part, start, UINT64_MAX, &r))
		conformance_verdict_note(
			v, "%s: bytes %" PRIu64 " to %" PRIu64 " are only in the whole listing",
			part->label, r.start, r.end);
	if (conformance_listing_missing(part, full, start, UINT64_MAX, &r))
		conformance_verdict_note(
			v, "%s: bytes %" PRIu64 " to %" PRIu64 " are not in the whole listing",
			part->label, r.start, r.end);
}

void conformance_check_covers(struct suite *suite, struct verdict *v, const struct listing *l,
			      unsigned kinds, bool gone_too)
{
	unsigned missed = 0, looked = 0;

	for (size_t i = 0; i < suite->scene.n_ranges; i++) {
		const struct scene_range *r = &suite->scene.ranges[i];
		uint64_t end = r->offset + r->length, at;

		if (!(r->kind & kinds) || (r->gone && !gone_too))
			continue;
		looked++;
		at = conformance_listing_uncovered(l, r->offset, end);
		if (at < end && missed++ < MISSED_SHOWN)
			conformance_verdict_fail(v, "%s: byte %" PRIu64 " is not reported",
						 l->label, at);
	}
	if (missed)
		conformance_verdict_fail(v, "%s: %u of %u ranges are missed", l->label, missed,
					 looked);
}
