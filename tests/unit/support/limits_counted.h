/* SPDX-License-Identifier: Apache-2.0 */

/* For the last test of a group that attacks: each of these limits has acted, and is counted. */
#ifndef CAIRN_TESTS_UNIT_LIMITS_COUNTED_H
#define CAIRN_TESTS_UNIT_LIMITS_COUNTED_H

#include "net/limit_events.h"

#define assert_limits_counted(...)                                                      \
	do {                                                                            \
		static const enum net_limit wanted_limits[] = {__VA_ARGS__};            \
		for (size_t limit_i = 0; limit_i < ARRAY_LEN(wanted_limits); limit_i++) \
			if (net_limit_counted(wanted_limits[limit_i]) == 0)             \
				fail_msg("%s is not counted",                           \
					 net_limit_names[wanted_limits[limit_i]]);      \
	} while (0)

#endif
