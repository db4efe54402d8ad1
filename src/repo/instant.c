/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/instant.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_SEC 1000000000LL
#define DAY        86400LL

/* Years begin in March here, so that the leap day is the last of its year; an
 * era is 400 of them, 146097 days. */
int64_t repo_days_from_civil(int64_t year, unsigned month, unsigned day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void repo_civil_from_days(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;

	*ret_day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
	*ret_month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
	*ret_year = yoe + era * 400 + (*ret_month <= 2);
}

const char *repo_instant_format(int64_t ns_since_epoch, char out[REPO_INSTANT_TEXT_MAX])
{
	int64_t ns = ns_since_epoch % NS_PER_SEC, seconds = ns_since_epoch / NS_PER_SEC;
	int64_t year, of_day;
	unsigned month, day;
	int n;

	if (ns < 0) {
		ns += NS_PER_SEC;
		seconds--;
	}
	of_day = ((seconds % DAY) + DAY) % DAY;
	repo_civil_from_days((seconds - of_day) / DAY, &year, &month, &day);
	n = snprintf(out, REPO_INSTANT_TEXT_MAX, "%04d-%02u-%02uT%02d:%02d:%02d.%09d", (int)year,
		     month, day, (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60),
		     (int)ns);
	while (n > 0 && out[n - 1] == '0')
		n--;
	if (n > 0 && out[n - 1] == '.')
		n--;
	out[n] = 'Z';
	out[n + 1] = '\0';
	return out;
}

/* Takes exactly `digits` digits. */
static bool instant_number(const char **at, const char *end, int digits, unsigned *ret)
{
	unsigned value = 0;

	for (int i = 0; i < digits; i++, ++*at) {
		if (*at == end || **at < '0' || **at > '9')
			return false;
		value = value * 10 + (unsigned)(**at - '0');
	}
	*ret = value;
	return true;
}

static bool instant_literal(const char **at, const char *end, char c)
{
	if (*at == end || **at != c)
		return false;
	++*at;
	return true;
}

static bool instant_fraction(const char **at, const char *end, int64_t *ret_ns)
{
	int64_t scale = NS_PER_SEC / 10;

	*ret_ns = 0;
	if (!instant_literal(at, end, '.'))
		return true;
	if (*at == end || **at < '0' || **at > '9')
		return false;
	for (; *at < end && **at >= '0' && **at <= '9'; ++*at, scale /= 10)
		*ret_ns += (**at - '0') * scale;
	return true;
}

static bool instant_zone(const char **at, const char *end, int64_t *ret_seconds)
{
	unsigned hours, minutes;
	bool minus;

	*ret_seconds = 0;
	if (instant_literal(at, end, 'Z') || instant_literal(at, end, 'z'))
		return true;
	minus = instant_literal(at, end, '-');
	if (!minus && !instant_literal(at, end, '+'))
		return false;
	if (!instant_number(at, end, 2, &hours) || !instant_literal(at, end, ':') ||
	    !instant_number(at, end, 2, &minutes))
		return false;
	if (hours > 24 || minutes > 59)
		return false;
	*ret_seconds = (int64_t)(hours * 3600 + minutes * 60) * (minus ? -1 : 1);
	return true;
}

bool repo_instant_parse(const char *text, size_t n, int64_t *ret)
{
	static const unsigned char days_of[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	const char *at = text, *end = text + n;
	unsigned year, month, day, hour, minute, second;
	int64_t ns, offset, seconds, total;

	if (!instant_number(&at, end, 4, &year) || !instant_literal(&at, end, '-') ||
	    !instant_number(&at, end, 2, &month) || !instant_literal(&at, end, '-') ||
	    !instant_number(&at, end, 2, &day))
		return false;
	if (!instant_literal(&at, end, 'T') && !instant_literal(&at, end, 't'))
		return false;
	if (!instant_number(&at, end, 2, &hour) || !instant_literal(&at, end, ':') ||
	    !instant_number(&at, end, 2, &minute) || !instant_literal(&at, end, ':') ||
	    !instant_number(&at, end, 2, &second) || !instant_fraction(&at, end, &ns) ||
	    !instant_zone(&at, end, &offset) || at != end)
		return false;
	if (month < 1 || month > 12 || day < 1 || day > days_of[month - 1] || hour > 23 ||
	    minute > 59 || second > 60)
		return false;
	seconds = repo_days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 +
		  second - offset;
	if (__builtin_mul_overflow(seconds, NS_PER_SEC, &total) ||
	    __builtin_add_overflow(total, ns, &total))
		total = seconds < 0 ? INT64_MIN : INT64_MAX;
	*ret = total;
	return true;
}
