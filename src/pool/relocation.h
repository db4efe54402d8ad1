/* SPDX-License-Identifier: Apache-2.0 */

/* When a btrfs may have used an address again.
 *
 * Balance and deduplication move data of read-only snapshots, too. An extent that is
 * freed in one transaction can be allocated in a later one only, because it is pinned
 * until that one was committed. So addresses that were read while the filesystem's
 * generation was the same number were not freed and used again in between.
 */
#ifndef CAIRN_POOL_RELOCATION_H
#define CAIRN_POOL_RELOCATION_H

#include <stdint.h>

struct cairn_err;

/* The number of the transaction under way in the filesystem of `fd`.
 *
 * CAIRN_UNIMPLEMENTED  not btrfs, or a kernel before 5.10
 */
int relocation_epoch(int fd, uint64_t *ret, struct cairn_err *err);

#endif
