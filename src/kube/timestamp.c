/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/timestamp.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

#define SECONDS_MAX 253402300799 /* the end of the year 9999 */

static struct tm timestamp_utc(uint64_t ns)
{
	uint64_t seconds = ns / CAIRN_NS_PER_SEC;
	time_t when = (time_t)seconds;
	struct tm tm = {0};

	gmtime_r(&when, &tm);
	return tm;
}

const char *kube_time(uint64_t ns_since_epoch, char out[KUBE_TIME_MAX])
{
	struct tm tm = timestamp_utc(ns_since_epoch);

	strftime(out, KUBE_TIME_MAX, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return out;
}

const char *kube_time_micro(uint64_t ns_since_epoch, char out[KUBE_TIME_MAX])
{
	struct tm tm = timestamp_utc(ns_since_epoch);
	char seconds[KUBE_TIME_MAX - 8];

	strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, KUBE_TIME_MAX, "%s.%06uZ", seconds,
		 (unsigned)(ns_since_epoch % CAIRN_NS_PER_SEC / 1000));
	return out;
}

/* Parses exactly `n` digits and advances. */
static bool timestamp_number(const char **p, unsigned n, int *ret)
{
	int value = 0;

	for (; n > 0; n--, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		value = value * 10 + (**p - '0');
	}
	*ret = value;
	return true;
}

static bool timestamp_literal(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static bool timestamp_fraction(const char **p, uint64_t *ret_ns)
{
	uint64_t scale = CAIRN_NS_PER_SEC / 10;

	*ret_ns = 0;
	if (**p != '.')
		return true;
	(*p)++;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++, scale /= 10)
		*ret_ns += (uint64_t)(**p - '0') * scale;
	return true;
}

/* Seconds east of Greenwich; the zone must end the text. */
static bool timestamp_zone(const char *p, int *ret)
{
	bool west = *p == '-';
	int hours, minutes;

	if (*p == 'Z' || *p == 'z') {
		*ret = 0;
		return p[1] == '\0';
	}
	if (*p != '+' && *p != '-')
		return false;
	p++;
	if (!timestamp_number(&p, 2, &hours) || !timestamp_literal(&p, ':') ||
	    !timestamp_number(&p, 2, &minutes) || *p)
		return false;
	if (hours > 23 || minutes > 59)
		return false;
	*ret = (hours * 3600 + minutes * 60) * (west ? -1 : 1);
	return true;
}

static bool date_and_time(const char **p, struct tm *tm)
{
	if (!timestamp_number(p, 4, &tm->tm_year) || !timestamp_literal(p, '-') ||
	    !timestamp_number(p, 2, &tm->tm_mon) || !timestamp_literal(p, '-') ||
	    !timestamp_number(p, 2, &tm->tm_mday))
		return false;
	if (**p != 'T' && **p != 't')
		return false;
	(*p)++;
	if (!timestamp_number(p, 2, &tm->tm_hour) || !timestamp_literal(p, ':') ||
	    !timestamp_number(p, 2, &tm->tm_min) || !timestamp_literal(p, ':') ||
	    !timestamp_number(p, 2, &tm->tm_sec))
		return false;
	if (tm->tm_mon < 1 || tm->tm_mon > 12 || tm->tm_mday < 1 || tm->tm_mday > 31 ||
	    tm->tm_hour > 23 || tm->tm_min > 59 || tm->tm_sec > 60)
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon -= 1;
	return true;
}

bool kube_time_parse(const char *text, uint64_t *ret_ns)
{
	struct tm tm = {0};
	uint64_t nanoseconds;
	int64_t seconds;
	int east;

	if (!text || !date_and_time(&text, &tm) || !timestamp_fraction(&text, &nanoseconds) ||
	    !timestamp_zone(text, &east))
		return false;
	seconds = (int64_t)timegm(&tm) - east;
	if (seconds < 0 || seconds > SECONDS_MAX)
		return false;
	*ret_ns = (uint64_t)seconds > UINT64_MAX / CAIRN_NS_PER_SEC - 1
			  ? UINT64_MAX
			  : (uint64_t)seconds * CAIRN_NS_PER_SEC + nanoseconds;
	return true;
}
