/* SPDX-License-Identifier: Apache-2.0 */

/* Which of a series of moments a retention policy keeps: pure.
 *
 * As restic counts: from the newest on, the newest of each of the last n hours, days,
 * weeks (ISO), months and years is kept, and the last n of all. Hours and days are those
 * of UTC. Used for snapshots of a volume and for backups alike.
 */
#ifndef CAIRN_BASE_KEEP_H
#define CAIRN_BASE_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAIRN_KEEP_ALL UINT64_MAX

struct cairn_keep_policy {
	uint64_t last, hourly, daily, weekly, monthly, yearly; /* 0: none by this rule */
	uint64_t within_ms; /* all that are younger than the newest by this; 0: none */
};

enum cairn_keep_reason {
	CAIRN_KEEP_LAST = 1 << 0,
	CAIRN_KEEP_HOURLY = 1 << 1,
	CAIRN_KEEP_DAILY = 1 << 2,
	CAIRN_KEEP_WEEKLY = 1 << 3,
	CAIRN_KEEP_MONTHLY = 1 << 4,
	CAIRN_KEEP_YEARLY = 1 << 5,
	CAIRN_KEEP_WITHIN = 1 << 6,
	CAIRN_KEEP_NEXT = 1 << 7, /* from here on reasons are the caller's own */
};

/* True when the policy has no rule at all: it would keep nothing. */
bool cairn_keep_policy_empty(const struct cairn_keep_policy *policy);

/* What the rules have counted so far. */
struct cairn_keep {
	struct cairn_keep_policy left;
	int64_t period[6]; /* the last one that each rule kept something of */
	bool any;          /* there was a moment before */
	unsigned used;     /* rules that have a period */
	int64_t newest;
};

void cairn_keep_init(struct cairn_keep *keep, const struct cairn_keep_policy *policy);

/* Why the next moment, in nanoseconds since 1970, is kept; 0: it is not. Moments come
 * newest first. */
unsigned cairn_keep_next(struct cairn_keep *keep, int64_t time_ns);

/* The name of a single reason, such as "daily". */
const char *cairn_keep_reason_text(enum cairn_keep_reason reason);

#endif
