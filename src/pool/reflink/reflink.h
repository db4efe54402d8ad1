/* SPDX-License-Identifier: Apache-2.0 */

/* The back end for filesystems that share blocks between files (XFS, and btrfs without
 * root): snapshots use FICLONE, and changes are found by comparing extent maps.
 *
 * FICLONE takes 10 to 20 us per extent on XFS and blocks writers meanwhile, so a mounted
 * volume is cut in two steps (twostep.h).
 */
#ifndef CAIRN_POOL_REFLINK_REFLINK_H
#define CAIRN_POOL_REFLINK_REFLINK_H

#include <stdbool.h>

struct cairn_err;
struct store;

/* Tries a clone: an XFS made without reflinks has the same magic number.
 *
 * CAIRN_PRECONDITION  neither XFS with reflinks nor btrfs
 */
int reflink_store_probe(const char *dir, struct cairn_err *err);

/* CAIRN_PRECONDITION  neither XFS nor btrfs */
int reflink_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err);

#endif
