/* SPDX-License-Identifier: Apache-2.0 */

/* Translates responses of the shipped SnapshotMetadata to those of the session flavour.
 *
 * Both have the same fields; only the values of the type differ: 1 and 2 become 0 and 1.
 * All other bytes are unchanged. Bytes in, bytes out.
 */
#ifndef CAIRN_PROTO_BLOCK_TRANSLATE_H
#define CAIRN_PROTO_BLOCK_TRANSLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the message to `out`, which has room for `n` bytes; the result is never longer.
 * False if it is malformed, or its type does not exist in the other flavour. */
bool proto_block_translate(const uint8_t *data, size_t n, uint8_t *out, size_t *ret_n);

#endif
