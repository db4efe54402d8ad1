/* SPDX-License-Identifier: Apache-2.0 */

/* CRC-32C as btrfs uses it: the bare register, not inverted before or after. */
#ifndef CAIRN_POOL_BTRFS_CRC32C_H
#define CAIRN_POOL_BTRFS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t btrfs_crc32c_raw(uint32_t crc, const void *data, size_t n);

#endif
