/* SPDX-License-Identifier: Apache-2.0 */

/* The checksum of stored block structures: XXH3, 64 bits, seed 0. It detects damage, not
 * tampering. */
#ifndef CAIRN_BLOCK_CHECKSUM_H
#define CAIRN_BLOCK_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t block_checksum(const void *data, size_t n);

#endif
