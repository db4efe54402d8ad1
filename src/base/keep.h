/* SPDX-License-Identifier: Apache-2.0 */

/* Decides which of a series of points in time a retention policy keeps. No clock, no I/O.
 *
 * Counts like restic: starting with the newest, the newest of each of the last n hours,
 * days, weeks (ISO), months and years is kept, and the last n of all. Hours and days are
 * in UTC. Used both for snapshots of a volume and for backups.
 */
#ifndef CAIRN_BASE_KEEP_H
#define CAIRN_BASE_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAIRN_KEEP_ALL UINT64_MAX

struct cairn_keep_policy {
	uint64_t last, hourly, daily, weekly, monthly, yearly; /* 0: the rule is off */
	uint64_t within_ms; /* keep all within this time before the newest; 0: off */
};

enum cairn_keep_reason {
	CAIRN_KEEP_LAST = 1 << 0,
	CAIRN_KEEP_HOURLY = 1 << 1,
	CAIRN_KEEP_DAILY = 1 << 2,
	CAIRN_KEEP_WEEKLY = 1 << 3,
	CAIRN_KEEP_MONTHLY = 1 << 4,
	CAIRN_KEEP_YEARLY = 1 << 5,
	CAIRN_KEEP_WITHIN = 1 << 6,
	CAIRN_KEEP_NEXT = 1 << 7, /* bits from here on are for the caller */
};

/* True if the policy has no rule: it would keep nothing. */
bool cairn_keep_policy_empty(const struct cairn_keep_policy *policy);

/* The progress of the rules. */
struct cairn_keep {
	struct cairn_keep_policy left;
	int64_t period[6]; /* the last period in which each rule kept one */
	bool any;          /* not the first call */
	unsigned used;     /* bits of the rules whose period is set */
	int64_t newest;
};

void cairn_keep_init(struct cairn_keep *keep, const struct cairn_keep_policy *policy);

/* Returns why the next point, in nanoseconds since 1970, is kept; 0 if it is not. Points
 * must be passed newest first. */
unsigned cairn_keep_next(struct cairn_keep *keep, int64_t time_ns);

/* The name of a single reason, such as "daily". */
const char *cairn_keep_reason_text(enum cairn_keep_reason reason);

#endif
