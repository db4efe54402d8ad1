/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/go_duration.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

/* A unit precedes its prefixes, so that the longest one matches. */
static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
	{"ns", 1},          {"us", 1000},      {"µs", 1000}, {"ms", 1000000}, {"h", 3600000000000},
	{"m", 60000000000}, {"s", 1000000000},
};

static bool take_unit(const char **p, uint64_t *ret_ns)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i].name);

		if (strncmp(*p, units[i].name, n) == 0) {
			*p += n;
			*ret_ns = units[i].ns;
			return true;
		}
	}
	return false;
}

/* "12" or "1.5"; *ret_scale is what the fraction was multiplied with. */
static bool go_duration_take_number(const char **p, uint64_t *ret, uint64_t *ret_scale)
{
	uint64_t value = 0, scale = 1;
	bool any = false, fraction = false;

	for (; isdigit((unsigned char)**p) || (**p == '.' && !fraction); (*p)++) {
		if (**p == '.') {
			fraction = true;
			continue;
		}
		any = true;
		if (fraction && scale >= 1000000000)
			continue;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**p - '0'), &value))
			return false;
		scale *= fraction ? 10 : 1;
	}
	*ret = value;
	*ret_scale = scale;
	return any;
}

bool velero_go_duration(const char *text, uint64_t *ret_ms)
{
	uint64_t total = 0;

	if (strcmp(text, "0") == 0) {
		*ret_ms = 0;
		return true;
	}
	if (!*text)
		return false;
	while (*text) {
		uint64_t number, scale, unit, part;

		if (!go_duration_take_number(&text, &number, &scale) || !take_unit(&text, &unit) ||
		    __builtin_mul_overflow(number, unit, &part) ||
		    __builtin_add_overflow(total, part / scale, &total))
			return false;
	}
	*ret_ms = total / 1000000;
	return true;
}
