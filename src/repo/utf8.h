/* SPDX-License-Identifier: Apache-2.0 */

/* Characters by number, for the escapes of JSON and of node names. */
#ifndef CAIRN_REPO_UTF8_H
#define CAIRN_REPO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

/* `c` is at most 0x10ffff and not a surrogate. */
void repo_utf8_add(struct cairn_buf *out, uint32_t c);

/* Exactly `n` <= 8 hex digits. */
bool repo_hex_parse(const char *text, size_t n, uint32_t *ret);

#endif
