/* SPDX-License-Identifier: Apache-2.0 */

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)now.tv_nsec;
}

uint64_t cairn_now_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t cairn_monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

const char *cairn_format_time(uint64_t ns_since_epoch, char out[CAIRN_TIME_TEXT_MAX])
{
	time_t seconds = (time_t)(ns_since_epoch / CAIRN_NS_PER_SEC);
	unsigned ms = (unsigned)(ns_since_epoch % CAIRN_NS_PER_SEC / CAIRN_NS_PER_MS);
	struct tm tm;
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(out, CAIRN_TIME_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, CAIRN_TIME_TEXT_MAX - n, ".%03uZ", ms);
	return out;
}

void cairn_sleep_ms(uint64_t ms)
{
	struct timespec left = {.tv_sec = (time_t)(ms / 1000),
				.tv_nsec = (long)(ms % 1000 * CAIRN_NS_PER_MS)};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}
