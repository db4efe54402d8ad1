/* SPDX-License-Identifier: Apache-2.0 */

/* The mark of an unfinished restore over a file or a block device.
 *
 * A volume's mark is in the pool's catalogue; a file or device has only itself. So the
 * beginning of what is restored, where partition tables and superblocks are (that of
 * btrfs at 64 KiB), is written last. Until then a text stands there that names the
 * backup, and nothing mounts or boots what is half old and half new.
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

/* The backup that a mark on `fd` names; "" where there is no mark. */
int target_mark_read(int fd, char ret[POOL_RESTORING_MAX + 1], struct cairn_err *err);

/* Puts the mark there, durably; from here on the beginning is kept in memory. An
 * image that is smaller than a mark gets none. */
int target_mark_write(struct target *target, struct cairn_err *err);

/* Takes what belongs before the end of the head, and returns how many bytes that was.
 * `data` is NULL for zeros. From any number of threads, which write different ranges. */
size_t target_mark_take(const struct target *target, const void *data, uint64_t n, uint64_t offset);

/* Makes everything durable and then replaces the mark by what belongs there. Nothing
 * to do where there is no mark. */
int target_mark_replace(struct target *target, struct cairn_err *err);

#endif
