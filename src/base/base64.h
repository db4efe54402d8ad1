/* SPDX-License-Identifier: Apache-2.0 */

/* Base64 with the standard alphabet (RFC 4648, section 4). */
#ifndef CAIRN_BASE_BASE64_H
#define CAIRN_BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

/* Without padding, as gRPC requires: cairn_base64_length(n) bytes, no NUL. */
size_t cairn_base64_length(size_t n);
size_t cairn_base64_encode(const uint8_t *data, size_t n, char *out);

/* With padding, as JSON and HTTP require. */
void cairn_base64_add(struct cairn_buf *out, const void *data, size_t n);

/* Decodes padded and unpadded text to at most n / 4 * 3 + 2 bytes, also in place; false if
 * it is not base64. */
bool cairn_base64_decode(const char *text, size_t n, uint8_t *out, size_t *ret_n);

/* Decodes only padded text, of at most `max` bytes. */
bool cairn_base64_decode_padded(const char *text, uint8_t *out, size_t max, size_t *ret_n);

/* Decodes `n` bytes of base64 to a NUL-terminated string, owned by the caller; blanks and
 * line ends are skipped, because YAML folds long values. NULL if it is not base64,
 * contains a NUL byte, or memory is short; a partial result is wiped. */
char *cairn_base64_text(const char *text, size_t n);

#endif
