/* SPDX-License-Identifier: Apache-2.0 */

/* Header blocks that cost a server more than they cost a client. */
#ifndef CAIRN_TESTS_UNIT_HPACK_H
#define CAIRN_TESTS_UNIT_HPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends, with `define`, a field of 3000 bytes that goes into the table of HPACK, and then
 * `times` mentions of it, of a byte each. Returns the bytes written at `at`. */
size_t hpack_large_fields(uint8_t *at, bool define, unsigned times);

#endif
