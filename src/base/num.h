/* SPDX-License-Identifier: Apache-2.0 */

/* Checked conversion between numbers and text.
 *
 * Every parser accepts the whole string or rejects it with CAIRN_INVALID (not a number) or
 * CAIRN_RANGE (does not fit); nothing is guessed.
 */
#ifndef CAIRN_BASE_NUM_H
#define CAIRN_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

int cairn_parse_u64(const char *text, uint64_t *ret, struct cairn_err *err);
int cairn_parse_i64(const char *text, int64_t *ret, struct cairn_err *err);

/* Reads the digits at *text and advances *text past them. Returns false and changes nothing if
 * there is no digit or the number does not fit. */
bool cairn_take_u64(const char **text, uint64_t *ret);

/* Bytes: "4096", "8G", "1.5T", "64KiB", "10MB". K M G T P E and Ki.. are
 * powers of 1024; KB MB .. are powers of 1000. */
int cairn_parse_size(const char *text, uint64_t *ret, struct cairn_err *err);

/* Time: "90" (seconds), "500ms", "30s", "5m", "12h", "30d"; also sums "1h30m". */
int cairn_parse_duration_ms(const char *text, uint64_t *ret, struct cairn_err *err);

#define CAIRN_SIZE_TEXT_MAX 32

/* "8 GiB", "1.5 KiB", "512 B": at most four digits and a unit, truncated and not rounded.
 * Returns `out`. */
const char *cairn_format_size(uint64_t bytes, char out[CAIRN_SIZE_TEXT_MAX]);

/* Writes the decimal digits of `value` to `out` (at least 20 bytes); returns their number. */
size_t cairn_format_u64(uint64_t value, char *out);

#endif
