/* SPDX-License-Identifier: Apache-2.0 */

/* Steps that many tests take. Each says in the verdict what is wrong. */
#ifndef CAIRN_CONFORMANCE_CHECK_H
#define CAIRN_CONFORMANCE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "conformance/suite.h"

/* The main volume with its snapshots; false when it cannot be had. */
bool check_main(struct suite *suite, struct verdict *v);

/* The volume that grew between its snapshots; false when it cannot be had. */
bool check_grown(struct suite *suite, struct verdict *v);

/* Which snapshots a call is about. */
enum check_pair {
	CHECK_ALLOCATED, /* of `second` */
	CHECK_DELTA,     /* from `first` to `second` */
	CHECK_PAIRS,
};

struct listing_request check_request(const struct suite *suite, enum check_pair pair);

/* Gets a listing that must end with OK; the caller frees it in any case. */
bool check_get(struct suite *suite, struct verdict *v, const struct listing_request *request,
	       struct listing *ret);

/* A call that must be refused with one of the codes (negative, ended by 0),
 * within `limit_ms` (0: the target's). */
void check_refused(struct suite *suite, struct verdict *v, const struct listing_request *request,
		   const int *codes, uint64_t limit_ms);

/* From `start` on, `part` must hold what `full` holds. Less is wrong only where it
 * hides what the main volume's past has in it: a whole listing may report too
 * much, and need not do so each time. More is noted. */
void check_same(const struct suite *suite, struct verdict *v, const struct listing *full,
		const struct listing *part, uint64_t start);

/* The scene's ranges of these kinds must be covered; those that are zeros in
 * `second` only if `gone_too`. */
void check_covers(struct suite *suite, struct verdict *v, const struct listing *l, unsigned kinds,
		  bool gone_too);

#endif
