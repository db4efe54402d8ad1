/* SPDX-License-Identifier: Apache-2.0 */

/* What may stand in a name, and how text is shown. */
#ifndef CAIRN_BASE_TEXT_H
#define CAIRN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the first character of `n` > 0 bytes. Returns its length, or 0 when
 * the bytes are no UTF-8. */
size_t cairn_utf8_next(const char *text, size_t n, uint32_t *ret);

/* Valid UTF-8: no overlong form, no surrogate, nothing above U+10FFFF. */
bool cairn_utf8_valid(const char *text, size_t n);

/* Valid UTF-8 without control characters (C0, DEL, C1). */
bool cairn_text_printable(const char *text, size_t n);

/* Both are there and equal. */
bool cairn_text_same(const char *a, const char *b);

/* Terminal columns that `text` takes, wide and combining characters counted
 * right; needs no locale. */
size_t cairn_text_columns(const char *text);

/* How many letters must be inserted, dropped, changed or swapped with their
 * neighbour to make `b` of `a`; for "did you mean". Texts longer than
 * CAIRN_TEXT_DISTANCE_MAX are as far apart as can be: SIZE_MAX. */
#define CAIRN_TEXT_DISTANCE_MAX 63
size_t cairn_text_distance(const char *a, const char *b);

/* The distance up to which something is worth suggesting for `typed`. */
size_t cairn_text_near(const char *typed);

#endif
