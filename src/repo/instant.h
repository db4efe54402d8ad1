/* SPDX-License-Identifier: Apache-2.0 */

/* Instants as restic writes them: RFC 3339 with a zone and up to nine digits of
 * a second, without trailing zeros. */
#ifndef CAIRN_REPO_INSTANT_H
#define CAIRN_REPO_INSTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPO_INSTANT_TEXT_MAX 40

/* In UTC. Years outside of 0001..9999, which the format cannot represent,
 * become the nearest one. Returns `out`. */
const char *repo_instant_format(int64_t ns_since_epoch, char out[REPO_INSTANT_TEXT_MAX]);

/* False for anything other than RFC 3339; times outside the range of int64_t
 * (before 1678, after 2261) become the nearest value. */
bool repo_instant_parse(const char *text, size_t n, int64_t *ret);

/* Days since 1970 to the civil date and back. */
void repo_civil_from_days(int64_t days, int64_t *ret_year, unsigned *ret_month, unsigned *ret_day);
int64_t repo_days_from_civil(int64_t year, unsigned month, unsigned day);

#endif
