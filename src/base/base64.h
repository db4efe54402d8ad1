/* SPDX-License-Identifier: Apache-2.0 */

/* Base64 with the standard alphabet (RFC 4648, section 4). */
#ifndef CAIRN_BASE_BASE64_H
#define CAIRN_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

/* Without padding, as gRPC wants it: cairn_base64_length(n) bytes, no NUL. */
size_t cairn_base64_length(size_t n);
size_t cairn_base64_encode(const uint8_t *data, size_t n, char *out);

/* With padding, as JSON and HTTP want it. */
void cairn_base64_add(struct cairn_buf *out, const void *data, size_t n);

/* Takes padded and unpadded text, at most n / 4 * 3 + 2 bytes, also in place;
 * false when it is not base64. */
bool cairn_base64_decode(const char *text, size_t n, uint8_t *out, size_t *ret_n);

/* Only padded text, of at most `max` bytes. */
bool cairn_base64_decode_padded(const char *text, uint8_t *out, size_t max, size_t *ret_n);

/* The text that `n` bytes of base64 stand for, terminated, owned by the caller; blanks and
 * line ends in it are skipped, as YAML folds long values. NULL when it is not
 * base64, has a NUL byte, or memory is short; what was decoded until then is
 * wiped. */
char *cairn_base64_text(const char *text, size_t n);

#endif
