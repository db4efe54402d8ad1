/* SPDX-License-Identifier: Apache-2.0 */

/* Writes known bytes to a published device.
 *
 * The byte at an offset depends on the offset and on a version; two versions differ in
 * every byte, and no byte is zero. conformance_device_sync() flushes the writes, so that a snapshot
 * must contain them.
 */
#ifndef CAIRN_CONFORMANCE_DEVICE_H
#define CAIRN_CONFORMANCE_DEVICE_H

#include <stdint.h>

struct cairn_err;

#define DEVICE_VERSIONS 254U

/* `version` is 1 to DEVICE_VERSIONS, or 0 for zeros. */
int conformance_device_write(int fd, uint64_t offset, uint64_t length, unsigned version,
			     struct cairn_err *err);

/* Punches a hole.
 *
 * CAIRN_UNIMPLEMENTED  the device does not support it
 */
int conformance_device_discard(int fd, uint64_t offset, uint64_t length, struct cairn_err *err);

int conformance_device_sync(int fd, struct cairn_err *err);

/* The current size in bytes. */
int conformance_device_size(int fd, uint64_t *ret, struct cairn_err *err);

#endif
