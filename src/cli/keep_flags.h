/* SPDX-License-Identifier: Apache-2.0 */

/* The flags of a retention policy (base/keep.h), the same for snapshots and backups:
 * entries of a command's table. `policy` has the fields of struct cairn_keep_policy. */
#ifndef CAIRN_CLI_KEEP_FLAGS_H
#define CAIRN_CLI_KEEP_FLAGS_H

#include "base/flags.h"

/* clang-format off */
#define CMD_KEEP_FLAG(what, field, text) \
	{.name = "keep-" what, .kind = CAIRN_FLAG_U64, .target = &(field), \
	 .value_name = "N", .help = text}

#define CMD_KEEP_FLAGS(policy) \
	CMD_KEEP_FLAG("last", (policy).last, "keep the newest N"), \
	CMD_KEEP_FLAG("hourly", (policy).hourly, "keep the newest of each of the last N hours"), \
	CMD_KEEP_FLAG("daily", (policy).daily, "keep the newest of each of the last N days"), \
	CMD_KEEP_FLAG("weekly", (policy).weekly, "keep the newest of each of the last N weeks"), \
	CMD_KEEP_FLAG("monthly", (policy).monthly, "keep the newest of each of the last N months"), \
	CMD_KEEP_FLAG("yearly", (policy).yearly, "keep the newest of each of the last N years"), \
	{.name = "keep-within", .kind = CAIRN_FLAG_DURATION, .target = &(policy).within_ms, \
	 .value_name = "TIME", .help = "keep all that are younger than the newest by this"}
/* clang-format on */

#endif
