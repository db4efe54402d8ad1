/* SPDX-License-Identifier: Apache-2.0 */

#include "base/keep.h"

#include <time.h>

#include "base/clock.h"

#define HOUR ((int64_t)3600 * (int64_t)CAIRN_NS_PER_SEC)
#define DAY  (24 * HOUR)

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static int64_t hour_of(int64_t ns)
{
	return floor_div(ns, HOUR);
}

static int64_t day_of(int64_t ns)
{
	return floor_div(ns, DAY);
}

/* ISO weeks begin on Monday; 1970-01-01 was a Thursday. */
static int64_t week_of(int64_t ns)
{
	return floor_div(day_of(ns) + 3, 7);
}

static int64_t month_of(int64_t ns)
{
	time_t seconds = (time_t)floor_div(ns, (int64_t)CAIRN_NS_PER_SEC);
	struct tm tm = {0};

	gmtime_r(&seconds, &tm);
	return (int64_t)tm.tm_year * 12 + tm.tm_mon;
}

static int64_t year_of(int64_t ns)
{
	return floor_div(month_of(ns), 12);
}

bool cairn_keep_policy_empty(const struct cairn_keep_policy *p)
{
	return !p->last && !p->hourly && !p->daily && !p->weekly && !p->monthly && !p->yearly &&
	       !p->within_ms;
}

void cairn_keep_init(struct cairn_keep *keep, const struct cairn_keep_policy *policy)
{
	*keep = (struct cairn_keep){.left = *policy};
}

/* A rule that keeps the newest of each of the last `*left` periods; without `period_of`
 * each point is its own period. */
static bool apply_rule(struct cairn_keep *keep, unsigned index, uint64_t *left,
		       int64_t (*period_of)(int64_t ns), int64_t time_ns)
{
	int64_t period = period_of ? period_of(time_ns) : 0;

	if (*left == 0 ||
	    (period_of && (keep->used & 1U << index) && keep->period[index] == period))
		return false;
	if (*left != CAIRN_KEEP_ALL)
		--*left;
	keep->used |= 1U << index;
	keep->period[index] = period;
	return true;
}

static bool is_within(const struct cairn_keep *keep, int64_t time_ns)
{
	int64_t age, limit;

	if (keep->left.within_ms == 0)
		return false;
	if (__builtin_mul_overflow(keep->left.within_ms, CAIRN_NS_PER_MS, &limit) ||
	    __builtin_sub_overflow(keep->newest, time_ns, &age))
		return true;
	return age < limit;
}

unsigned cairn_keep_next(struct cairn_keep *keep, int64_t time_ns)
{
	struct {
		uint64_t *left;
		int64_t (*period_of)(int64_t ns);
		unsigned reason;
	} rules[] = {
		{&keep->left.last, NULL, CAIRN_KEEP_LAST},
		{&keep->left.hourly, hour_of, CAIRN_KEEP_HOURLY},
		{&keep->left.daily, day_of, CAIRN_KEEP_DAILY},
		{&keep->left.weekly, week_of, CAIRN_KEEP_WEEKLY},
		{&keep->left.monthly, month_of, CAIRN_KEEP_MONTHLY},
		{&keep->left.yearly, year_of, CAIRN_KEEP_YEARLY},
	};
	unsigned reasons = 0;

	if (!keep->any)
		keep->newest = time_ns;
	keep->any = true;
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (apply_rule(keep, i, rules[i].left, rules[i].period_of, time_ns))
			reasons |= rules[i].reason;
	if (is_within(keep, time_ns))
		reasons |= CAIRN_KEEP_WITHIN;
	return reasons;
}

const char *cairn_keep_reason_text(enum cairn_keep_reason reason)
{
	switch (reason) {
	case CAIRN_KEEP_LAST:
		return "last";
	case CAIRN_KEEP_HOURLY:
		return "hourly";
	case CAIRN_KEEP_DAILY:
		return "daily";
	case CAIRN_KEEP_WEEKLY:
		return "weekly";
	case CAIRN_KEEP_MONTHLY:
		return "monthly";
	case CAIRN_KEEP_YEARLY:
		return "yearly";
	case CAIRN_KEEP_WITHIN:
		return "within";
	case CAIRN_KEEP_NEXT:
		break;
	}
	return "other";
}
