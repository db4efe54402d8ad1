/* SPDX-License-Identifier: Apache-2.0 */

/* The mark of an unfinished restore to a file or a block device.
 *
 * A volume's mark is in the pool's catalogue; a file or device has no other place for
 * it. So the beginning of the image, where partition tables and superblocks are (that
 * of btrfs at 64 KiB), is written last. Until then it holds a text that names the
 * backup, so that a half-restored target cannot be mounted or booted.
 */
#ifndef CAIRN_BACKUP_TARGET_MARK_H
#define CAIRN_BACKUP_TARGET_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;
struct target;

#define TARGET_HEAD_BYTES (128U << 10)

/* The backup named by a mark on `fd`; "" if there is no mark. */
int backup_target_mark_read(int fd, char ret[POOL_RESTORING_MAX + 1], struct cairn_err *err);

/* Writes the mark, durably; from here on the beginning of the image is kept in
 * memory. An image that is smaller than a mark gets none. */
int backup_target_mark_write(struct target *target, struct cairn_err *err);

/* Keeps the part of the data that belongs to the head, and returns its length. `data` is
 * NULL for zeros. From any number of threads, which write different ranges. */
size_t backup_target_mark_take(const struct target *target, const void *data, uint64_t n,
			       uint64_t offset);

/* Makes everything durable and then replaces the mark by the head. Does nothing if
 * there is no mark. */
int backup_target_mark_replace(struct target *target, struct cairn_err *err);

#endif
