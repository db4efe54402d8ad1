/* SPDX-License-Identifier: Apache-2.0 */

#include "base/num.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

__extension__ typedef unsigned __int128 wide; /* room for a product of two 64-bit values */

/* Parses digits at *text into *ret and advances *text. False if there are none or the
 * value does not fit; *ret_range is set in the second case. */
static bool take_digits(const char **text, uint64_t *ret, bool *ret_range)
{
	const char *p = *text;
	uint64_t value = 0;

	*ret_range = false;
	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
			*ret_range = true;
			return false;
		}
	}
	*text = p;
	*ret = value;
	return true;
}

static int num_refuse(struct cairn_err *err, bool range, const char *text, const char *what)
{
	if (range)
		return cairn_err_set(err, CAIRN_RANGE, "'%s' is too large", text);
	return cairn_err_set(err, CAIRN_INVALID, "'%s' is not %s", text, what);
}

bool cairn_take_u64(const char **text, uint64_t *ret)
{
	bool range;

	return take_digits(text, ret, &range);
}

int cairn_parse_u64(const char *text, uint64_t *ret, struct cairn_err *err)
{
	const char *p = text;
	uint64_t value;
	bool range;

	if (!take_digits(&p, &value, &range) || *p)
		return num_refuse(err, range, text, "a whole number of 0 or more");
	*ret = value;
	return 0;
}

int cairn_parse_i64(const char *text, int64_t *ret, struct cairn_err *err)
{
	bool negative = text[0] == '-';
	const char *p = text + negative;
	uint64_t value;
	bool range;

	if (!take_digits(&p, &value, &range) || *p)
		return num_refuse(err, range, text, "a whole number");
	/* INT64_MIN has no positive counterpart: one more is allowed, negated as unsigned. */
	if (value > (uint64_t)INT64_MAX + negative)
		return num_refuse(err, true, text, "");
	*ret = negative ? (int64_t)(0 - value) : (int64_t)value;
	return 0;
}

/* The factor of a unit such as "G", "GiB" or "GB"; 0 if unknown. */
static uint64_t unit_factor(const char *unit)
{
	static const char letters[] = "KMGTPE";
	const char *at = *unit ? strchr(letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit) : NULL;
	uint64_t base = 1024;
	uint64_t factor = 1;

	if (strcmp(unit, "") == 0 || strcmp(unit, "B") == 0)
		return 1;
	if (!at)
		return 0;
	if (strcmp(unit + 1, "B") == 0)
		base = 1000;
	else if (strcmp(unit + 1, "") != 0 && strcmp(unit + 1, "i") != 0 &&
		 strcmp(unit + 1, "iB") != 0)
		return 0;
	for (long i = at - letters; i >= 0; i--)
		factor *= base;
	return factor;
}

int cairn_parse_size(const char *text, uint64_t *ret, struct cairn_err *err)
{
	static const char what[] = "a size such as 4096, 8G or 1.5T";
	const char *p = text;
	uint64_t whole;
	uint64_t tenths = 0;
	uint64_t scale = 1;
	uint64_t factor;
	bool range;

	if (!take_digits(&p, &whole, &range))
		return num_refuse(err, range, text, what);
	if (*p == '.') {
		const char *start = ++p;

		if (!take_digits(&p, &tenths, &range) || p - start > 6)
			return num_refuse(err, false, text, what);
		for (; start < p; start++)
			scale *= 10;
	}
	factor = unit_factor(p);
	if (factor == 0 || (scale > 1 && factor == 1)) /* no part of a byte */
		return num_refuse(err, false, text, what);
	if (__builtin_mul_overflow(whole, factor, &whole) ||
	    __builtin_add_overflow(whole, (uint64_t)((wide)tenths * factor / scale), &whole))
		return num_refuse(err, true, text, what);
	*ret = whole;
	return 0;
}

static uint64_t duration_factor(const char **unit)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		/* "ms" before "m", which is its beginning */
		{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i].name);

		if (strncmp(*unit, units[i].name, n) == 0) {
			*unit += n;
			return units[i].ms;
		}
	}
	return 0;
}

int cairn_parse_duration_ms(const char *text, uint64_t *ret, struct cairn_err *err)
{
	static const char what[] = "a time such as 30s, 5m, 12h or 30d";
	const char *p = text;
	uint64_t total = 0;
	bool range, first = true;

	do {
		uint64_t value;
		uint64_t factor = 1000;

		if (!take_digits(&p, &value, &range))
			return num_refuse(err, range, text, what);
		if (*p)
			factor = duration_factor(&p);
		else if (!first)
			factor = 0; /* "1h30" has no unit for the 30 */
		first = false;
		if (factor == 0)
			return num_refuse(err, false, text, what);
		if (__builtin_mul_overflow(value, factor, &value) ||
		    __builtin_add_overflow(total, value, &total))
			return num_refuse(err, true, text, what);
	} while (*p);
	*ret = total;
	return 0;
}

const char *cairn_format_size(uint64_t bytes, char out[CAIRN_SIZE_TEXT_MAX])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned unit = 0;
	uint64_t tenths;

	while (unit + 1 < sizeof(units) / sizeof(units[0]) && bytes >> (10 * (unit + 1)))
		unit++;
	if (unit == 0) {
		snprintf(out, CAIRN_SIZE_TEXT_MAX, "%" PRIu64 " B", bytes);
		return out;
	}
	tenths = (uint64_t)(((wide)bytes * 10) >> (10 * unit));
	if (tenths % 10 == 0 || tenths >= 1000) /* at most four characters */
		snprintf(out, CAIRN_SIZE_TEXT_MAX, "%" PRIu64 " %s", tenths / 10, units[unit]);
	else
		snprintf(out, CAIRN_SIZE_TEXT_MAX, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10,
			 tenths % 10, units[unit]);
	return out;
}

size_t cairn_format_u64(uint64_t value, char *out)
{
	/* Two digits per division: this dominates the output of millions of extents. */
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";
	char digits[20];
	size_t at = sizeof(digits);

	/* Byte by byte, because a fortified memcpy() of two bytes is a function call. */
	while (value >= 100) {
		digits[--at] = pairs[2 * (value % 100) + 1];
		digits[--at] = pairs[2 * (value % 100)];
		value /= 100;
	}
	if (value >= 10) {
		digits[--at] = pairs[2 * value + 1];
		digits[--at] = pairs[2 * value];
	} else {
		digits[--at] = (char)('0' + value);
	}
	memcpy(out, digits + at, sizeof(digits) - at);
	return sizeof(digits) - at;
}
