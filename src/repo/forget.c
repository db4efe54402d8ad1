/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/forget.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/instant.h"
#include "repo/snapshot.h"

#define HOUR ((int64_t)3600 * (int64_t)CAIRN_NS_PER_SEC)
#define DAY  (24 * HOUR)

/* A rule that keeps the newest of each of the last `left` periods. */
struct rule {
	uint64_t left;
	int64_t (*period)(int64_t ns);
	unsigned reason;
	int64_t last;
	bool any;
};

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

/* ISO weeks begin on Monday; the first day of 1970 was a Thursday. */
static int64_t week_of(int64_t ns)
{
	return floor_div(day_of(ns) + 3, 7);
}

static int64_t month_of(int64_t ns)
{
	unsigned month, day;
	int64_t year;

	repo_civil_from_days(day_of(ns), &year, &month, &day);
	return year * 12 + month;
}

static int64_t year_of(int64_t ns)
{
	return floor_div(month_of(ns) - 1, 12);
}

bool repo_policy_empty(const struct repo_policy *p)
{
	return !p->last && !p->hourly && !p->daily && !p->weekly && !p->monthly && !p->yearly &&
	       !p->within_ms && p->n_tags == 0;
}

/* ---- groups ----------------------------------------------------------------- */

static int compare_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_lists(const char **a, size_t a_n, const char **b, size_t b_n)
{
	if (a_n != b_n)
		return a_n < b_n ? -1 : 1;
	for (size_t i = 0; i < a_n; i++) {
		int order = strcmp(a[i], b[i]);

		if (order != 0)
			return order;
	}
	return 0;
}

static int compare_group(const struct repo_policy *policy, const struct repo_snapshot *a,
			 const struct repo_snapshot *b)
{
	int order = policy->group_host ? compare_text(a->hostname, b->hostname) : 0;

	if (order == 0 && policy->group_paths)
		order = compare_lists(a->paths, a->n_paths, b->paths, b->n_paths);
	if (order == 0 && policy->group_tags)
		order = compare_lists(a->tags, a->n_tags, b->tags, b->n_tags);
	return order;
}

struct item {
	const struct repo_snapshot *snapshot;
	size_t i;      /* in the caller's list */
	bool mistimed; /* a clock was wrong */
};

/* ---- clocks ------------------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return repo_id_compare(&x->snapshot->id, &y->snapshot->id);
}

static bool is_to_come(const struct repo_policy *policy, const struct repo_snapshot *snapshot)
{
	return snapshot->time_ns > policy->now_ns;
}

/* What was made from another is younger than it. */
static bool before_parent(const struct repo_policy *policy, const struct repo_snapshot *snapshot,
			  const struct item *items, size_t n)
{
	struct repo_snapshot wanted = {.id = snapshot->parent};
	struct item key = {.snapshot = &wanted};
	const struct item *parent;

	if (!snapshot->has_parent)
		return false;
	parent = bsearch(&key, items, n, sizeof(*items), by_id);
	return parent && !is_to_come(policy, parent->snapshot) &&
	       parent->snapshot->time_ns > snapshot->time_ns;
}

static void find_mistimed(const struct repo_policy *policy, struct item *items, size_t n)
{
	if (policy->now_ns == 0)
		return;
	qsort(items, n, sizeof(*items), by_id);
	for (size_t i = 0; i < n; i++)
		items[i].mistimed = is_to_come(policy, items[i].snapshot) ||
				    before_parent(policy, items[i].snapshot, items, n);
}

/* By group, the newest first. */
static int by_group(const void *a, const void *b, void *arg)
{
	const struct item *x = a, *y = b;
	int order = compare_group(arg, x->snapshot, y->snapshot);

	if (order != 0)
		return order;
	if (x->snapshot->time_ns != y->snapshot->time_ns)
		return x->snapshot->time_ns > y->snapshot->time_ns ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

/* ---- rules ------------------------------------------------------------------ */

static unsigned apply_rule(struct rule *rule, int64_t time_ns)
{
	int64_t period = rule->period ? rule->period(time_ns) : 0;

	if (rule->left == 0 || (rule->period && rule->any && rule->last == period))
		return 0;
	if (rule->left != REPO_KEEP_ALL)
		rule->left--;
	rule->any = true;
	rule->last = period;
	return rule->reason;
}

static bool has_tag(const struct repo_policy *policy, const struct repo_snapshot *snapshot)
{
	for (size_t i = 0; i < policy->n_tags; i++)
		for (size_t k = 0; k < snapshot->n_tags; k++)
			if (strcmp(policy->tags[i], snapshot->tags[k]) == 0)
				return true;
	return false;
}

static bool is_within(const struct repo_policy *policy, int64_t newest, int64_t time_ns)
{
	int64_t age, limit;

	if (policy->within_ms == 0)
		return false;
	if (__builtin_mul_overflow(policy->within_ms, CAIRN_NS_PER_MS, &limit) ||
	    __builtin_sub_overflow(newest, time_ns, &age))
		return true;
	return age < limit;
}

static void apply_to_group(const struct repo_policy *policy, const struct item *items, size_t n,
			   unsigned *reasons)
{
	struct rule rules[] = {
		{policy->last, NULL, REPO_KEEP_LAST, 0, false},
		{policy->hourly, hour_of, REPO_KEEP_HOURLY, 0, false},
		{policy->daily, day_of, REPO_KEEP_DAILY, 0, false},
		{policy->weekly, week_of, REPO_KEEP_WEEKLY, 0, false},
		{policy->monthly, month_of, REPO_KEEP_MONTHLY, 0, false},
		{policy->yearly, year_of, REPO_KEEP_YEARLY, 0, false},
	};
	const struct repo_snapshot *newest = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct repo_snapshot *snapshot = items[i].snapshot;
		unsigned why = 0;

		if (items[i].mistimed) {
			reasons[items[i].i] = REPO_KEEP_CLOCK;
			continue;
		}
		newest = newest ? newest : snapshot;
		for (size_t k = 0; k < sizeof(rules) / sizeof(rules[0]); k++)
			why |= apply_rule(&rules[k], snapshot->time_ns);
		if (is_within(policy, newest->time_ns, snapshot->time_ns))
			why |= REPO_KEEP_WITHIN;
		if (has_tag(policy, snapshot))
			why |= REPO_KEEP_TAG;
		reasons[items[i].i] = why;
	}
}

int repo_policy_apply(const struct repo_policy *policy, struct repo_snapshot *const *snapshots,
		      size_t n, unsigned *ret_reasons, struct cairn_err *err)
{
	cairn_auto_free struct item *items = cairn_calloc(n, sizeof(*items));
	struct repo_policy copy = *policy;

	if (!items)
		return cairn_err_nomem(err, "a policy");
	if (repo_policy_empty(policy))
		return cairn_err_set(err, CAIRN_INVALID,
				     "no rule says what to keep; all would be deleted");
	for (size_t i = 0; i < n; i++)
		items[i] = (struct item){.snapshot = snapshots[i], .i = i};
	find_mistimed(policy, items, n);
	qsort_r(items, n, sizeof(*items), by_group, &copy);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n; end++)
			if (compare_group(policy, items[i].snapshot, items[end].snapshot) != 0)
				break;
		apply_to_group(policy, items + i, end - i, ret_reasons);
	}
	return 0;
}
