/* SPDX-License-Identifier: Apache-2.0 */

/* Steps that many tests share. Each records what is wrong in the verdict. */
#ifndef CAIRN_CONFORMANCE_CHECK_H
#define CAIRN_CONFORMANCE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "conformance/suite.h"

/* Provides the main volume with its snapshots; false if that fails. */
bool conformance_check_main(struct suite *suite, struct verdict *v);

/* Provides the volume that grew between its snapshots; false if that fails. */
bool conformance_check_grown(struct suite *suite, struct verdict *v);

/* The snapshots of a call. */
enum check_pair {
	CHECK_ALLOCATED, /* of `second` */
	CHECK_DELTA,     /* from `first` to `second` */
	CHECK_PAIRS,
};

struct listing_request conformance_check_request(const struct suite *suite, enum check_pair pair);

/* Gets a listing, which must end with OK; the caller frees it in any case. */
bool conformance_check_get(struct suite *suite, struct verdict *v,
			   const struct listing_request *request, struct listing *ret);

/* Makes a call that must be rejected with one of the codes (negative, terminated by 0),
 * within `limit_ms` (0: the target's). */
void conformance_check_refused(struct suite *suite, struct verdict *v,
			       const struct listing_request *request, const int *codes,
			       uint64_t limit_ms);

/* From `start` on, `part` must contain what `full` contains. A missing range is wrong only
 * if it hides a change of the main volume: a full listing may report too much, and not
 * every time. An additional range is noted. */
void conformance_check_same(const struct suite *suite, struct verdict *v,
			    const struct listing *full, const struct listing *part, uint64_t start);

/* The scene's ranges of these kinds must be covered; those that are zeros in `second` only
 * if `gone_too`. */
void conformance_check_covers(struct suite *suite, struct verdict *v, const struct listing *l,
			      unsigned kinds, bool gone_too);

#endif
