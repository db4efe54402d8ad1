/* SPDX-License-Identifier: Apache-2.0 */

/* UTF-8 text: validation, display width and similarity. */
#ifndef CAIRN_BASE_TEXT_H
#define CAIRN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the first character of `n` > 0 bytes. Returns its length, or 0 if the bytes are
 * not UTF-8. */
size_t cairn_utf8_next(const char *text, size_t n, uint32_t *ret);

/* Valid UTF-8: no overlong form, no surrogate, nothing above U+10FFFF. */
bool cairn_utf8_valid(const char *text, size_t n);

/* Valid UTF-8 without control characters (C0, DEL, C1). */
bool cairn_text_printable(const char *text, size_t n);

/* True if neither is NULL and both are equal. */
bool cairn_text_same(const char *a, const char *b);

/* Terminal columns of `text`, including wide and combining characters; needs no locale. */
size_t cairn_text_columns(const char *text);

/* Number of characters that must be inserted, deleted, changed or swapped with their
 * neighbour to turn `a` into `b`; for "did you mean". SIZE_MAX for texts longer than
 * CAIRN_TEXT_DISTANCE_MAX. */
#define CAIRN_TEXT_DISTANCE_MAX 63
size_t cairn_text_distance(const char *a, const char *b);

/* The largest distance of a useful suggestion for `typed`. */
size_t cairn_text_near(const char *typed);

#endif
