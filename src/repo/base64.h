/* SPDX-License-Identifier: Apache-2.0 */

/* Base64 as in key files, by OpenSSL's coder. */
#ifndef CAIRN_REPO_BASE64_H
#define CAIRN_REPO_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

void repo_base64_add(struct cairn_buf *out, const uint8_t *data, size_t n);

/* With padding, without white space, of at most `max` bytes. */
bool repo_base64_parse(const char *text, uint8_t *out, size_t max, size_t *ret_n);

#endif
