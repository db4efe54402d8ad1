/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/forget.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/keep.h"
#include "base/mem.h"
#include "repo/repo_snapshot.h"

static struct cairn_keep_policy rules_of(const struct repo_policy *p)
{
	return (struct cairn_keep_policy){.last = p->last,
					  .hourly = p->hourly,
					  .daily = p->daily,
					  .weekly = p->weekly,
					  .monthly = p->monthly,
					  .yearly = p->yearly,
					  .within_ms = p->within_ms};
}

bool repo_policy_empty(const struct repo_policy *p)
{
	struct cairn_keep_policy rules = rules_of(p);

	return cairn_keep_policy_empty(&rules) && p->n_tags == 0;
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

struct item {
	const struct repo_snapshot *snapshot;
	size_t i;      /* in the caller's list */
	bool mistimed; /* a clock was wrong */
};

static int compare_group(const struct repo_policy *policy, const struct item *x,
			 const struct item *y)
{
	const struct repo_snapshot *a = x->snapshot, *b = y->snapshot;
	int order = policy->group_host ? compare_text(a->hostname, b->hostname) : 0;

	if (order == 0 && policy->groups)
		order = (policy->groups[x->i] > policy->groups[y->i]) -
			(policy->groups[x->i] < policy->groups[y->i]);
	if (order == 0 && policy->group_paths)
		order = compare_lists(a->paths, a->n_paths, b->paths, b->n_paths);
	if (order == 0 && policy->group_tags)
		order = compare_lists(a->tags, a->n_tags, b->tags, b->n_tags);
	return order;
}

/* ---- clocks ------------------------------------------------------------------ */

static int forget_by_id(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return repo_id_compare(&x->snapshot->id, &y->snapshot->id);
}

static bool is_to_come(const struct repo_policy *policy, const struct repo_snapshot *snapshot)
{
	return snapshot->time_ns > policy->now_ns;
}

/* A snapshot must be younger than its parent. */
static bool before_parent(const struct repo_policy *policy, const struct repo_snapshot *snapshot,
			  const struct item *items, size_t n)
{
	struct repo_snapshot wanted = {.id = snapshot->parent};
	struct item key = {.snapshot = &wanted};
	const struct item *parent;

	if (!snapshot->has_parent)
		return false;
	parent = bsearch(&key, items, n, sizeof(*items), forget_by_id);
	return parent && !is_to_come(policy, parent->snapshot) &&
	       parent->snapshot->time_ns > snapshot->time_ns;
}

static void find_mistimed(const struct repo_policy *policy, struct item *items, size_t n)
{
	if (policy->now_ns == 0)
		return;
	qsort(items, n, sizeof(*items), forget_by_id);
	for (size_t i = 0; i < n; i++)
		items[i].mistimed = is_to_come(policy, items[i].snapshot) ||
				    before_parent(policy, items[i].snapshot, items, n);
}

/* By group, the newest first. */
static int by_group(const void *a, const void *b, void *arg)
{
	const struct item *x = a, *y = b;
	int order = compare_group(arg, x, y);

	if (order != 0)
		return order;
	if (x->snapshot->time_ns != y->snapshot->time_ns)
		return x->snapshot->time_ns > y->snapshot->time_ns ? -1 : 1;
	return x->i < y->i ? -1 : x->i > y->i;
}

/* ---- rules ------------------------------------------------------------------ */

static bool has_tag(const struct repo_policy *policy, const struct repo_snapshot *snapshot)
{
	for (size_t i = 0; i < policy->n_tags; i++)
		for (size_t k = 0; k < snapshot->n_tags; k++)
			if (strcmp(policy->tags[i], snapshot->tags[k]) == 0)
				return true;
	return false;
}

static void apply_to_group(const struct repo_policy *policy, const struct item *items, size_t n,
			   unsigned *reasons)
{
	struct cairn_keep_policy rules = rules_of(policy);
	struct cairn_keep keep;

	cairn_keep_init(&keep, &rules);
	for (size_t i = 0; i < n; i++) {
		const struct repo_snapshot *snapshot = items[i].snapshot;
		unsigned why;

		if (items[i].mistimed) {
			reasons[items[i].i] = REPO_KEEP_CLOCK;
			continue;
		}
		why = cairn_keep_next(&keep, snapshot->time_ns);
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
			if (compare_group(policy, &items[i], &items[end]) != 0)
				break;
		apply_to_group(policy, items + i, end - i, ret_reasons);
	}
	return 0;
}
