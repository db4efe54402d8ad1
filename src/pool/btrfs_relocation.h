/* SPDX-License-Identifier: Apache-2.0 */

/* Detects when a btrfs may have reused an address.
 *
 * Balance and deduplication also move data of read-only snapshots. An extent that is
 * freed in one transaction can be allocated only in a later one, because it stays
 * pinned until the first is committed. So addresses read while the filesystem's
 * generation was the same were not freed and reused in between.
 */
#ifndef CAIRN_POOL_RELOCATION_H
#define CAIRN_POOL_RELOCATION_H

#include <stdint.h>

struct cairn_err;

/* The number of the current transaction of the filesystem of `fd`.
 *
 * CAIRN_UNIMPLEMENTED  not btrfs, or a kernel before 5.10
 */
int pool_relocation_epoch(int fd, uint64_t *ret, struct cairn_err *err);

#endif
