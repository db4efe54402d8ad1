/* SPDX-License-Identifier: Apache-2.0 */

/* The back end for filesystems that share blocks between files (XFS, and btrfs
 * without root): snapshots by FICLONE, changes by comparing the extent maps.
 *
 * FICLONE takes about 20 us an extent on XFS and holds writers up meanwhile.
 */
#ifndef CAIRN_POOL_REFLINK_REFLINK_H
#define CAIRN_POOL_REFLINK_REFLINK_H

#include <stdbool.h>

struct cairn_err;
struct store;

/* CAIRN_PRECONDITION  neither XFS with reflinks nor btrfs */
int reflink_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err);

#endif
