/* SPDX-License-Identifier: Apache-2.0 */

/* Clocks and the format of times. */
#ifndef CAIRN_BASE_CLOCK_H
#define CAIRN_BASE_CLOCK_H

#include <stdint.h>

struct cairn_err;

#define CAIRN_NS_PER_MS  1000000ULL
#define CAIRN_NS_PER_SEC 1000000000ULL

/* Nanoseconds since 1970, and on the monotonic clock. */
uint64_t cairn_now_ns(void);
uint64_t cairn_monotonic_ns(void);

#define CAIRN_TIME_TEXT_MAX 32

/* RFC 3339 in UTC with milliseconds: 2026-11-15T08:30:00.000Z. Returns `out`. */
const char *cairn_format_time(uint64_t ns_since_epoch, char out[CAIRN_TIME_TEXT_MAX]);

/* Sleeps at least this long, also if interrupted by signals. */
void cairn_sleep_ms(uint64_t ms);

#endif
