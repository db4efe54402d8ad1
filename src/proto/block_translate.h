/* SPDX-License-Identifier: Apache-2.0 */

/* Responses of the shipped SnapshotMetadata as those of the session flavour.
 *
 * Both have the same fields; only the values of the type differ: 1 and 2 become 0
 * and 1. Everything else stays the bytes that it is. Bytes in, bytes out.
 */
#ifndef CAIRN_PROTO_BLOCK_TRANSLATE_H
#define CAIRN_PROTO_BLOCK_TRANSLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the message to `out`, which has room for `n` bytes; the result is never
 * longer. False when it is malformed, or has no type that the other flavour
 * knows. */
bool proto_block_translate(const uint8_t *data, size_t n, uint8_t *out, size_t *ret_n);

#endif
