/* SPDX-License-Identifier: Apache-2.0 */

/* Decides which snapshots a policy keeps: pure.
 *
 * Snapshots are grouped (by host and paths, as a rule), and the rules of
 * base/keep.h are applied to each group on its own.
 *
 * A wrong clock must not cost a backup: a snapshot dated in the future would count
 * as the newest for ever, and one that is older than its own parent would be the
 * first to be removed. Both are kept, and the rules do not count them.
 */
#ifndef CAIRN_REPO_FORGET_H
#define CAIRN_REPO_FORGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keep.h"

struct cairn_err;
struct repo_snapshot;

#define REPO_KEEP_ALL CAIRN_KEEP_ALL

struct repo_policy {
	uint64_t last, hourly, daily, weekly, monthly, yearly; /* 0: the rule keeps none */
	uint64_t within_ms;      /* all that are younger than the newest by this; 0: none */
	const char *const *tags; /* keep those with one of these tags */
	size_t n_tags;
	bool group_host, group_paths, group_tags;
	const size_t
		*groups; /* those with different numbers here are never in one group; or NULL */
	int64_t now_ns;  /* later snapshots are in the future; 0: all times are trusted */
};

enum repo_keep_reason {
	REPO_KEEP_LAST = CAIRN_KEEP_LAST,
	REPO_KEEP_HOURLY = CAIRN_KEEP_HOURLY,
	REPO_KEEP_DAILY = CAIRN_KEEP_DAILY,
	REPO_KEEP_WEEKLY = CAIRN_KEEP_WEEKLY,
	REPO_KEEP_MONTHLY = CAIRN_KEEP_MONTHLY,
	REPO_KEEP_YEARLY = CAIRN_KEEP_YEARLY,
	REPO_KEEP_WITHIN = CAIRN_KEEP_WITHIN,
	REPO_KEEP_TAG = CAIRN_KEEP_NEXT,
	REPO_KEEP_CLOCK = CAIRN_KEEP_NEXT << 1, /* its time is implausible */
};

/* True when the policy has no rule at all: it would delete everything, and is
 * refused by repo_policy_apply(). */
bool repo_policy_empty(const struct repo_policy *policy);

/* Fills ret_reasons[i] with why snapshots[i] is kept; 0: to be removed.
 *
 * CAIRN_INVALID  the policy is empty
 */
int repo_policy_apply(const struct repo_policy *policy, struct repo_snapshot *const *snapshots,
		      size_t n, unsigned *ret_reasons, struct cairn_err *err);

#endif
