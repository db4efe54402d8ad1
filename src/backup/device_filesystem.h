/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a device has what a claim in Filesystem mode has.
 *
 * Some drivers keep such volumes as directories. A Block-mode claim that they make from a snapshot
 * of one holds something else, an archive for example, and no restore could make a volume of it. */
#ifndef CAIRN_BACKUP_DEVICE_FILESYSTEM_H
#define CAIRN_BACKUP_DEVICE_FILESYSTEM_H

#include <jansson.h>

struct cairn_err;

/* `objects` are those that are kept with the backup. Succeeds without a look if they have no claim
 * in Filesystem mode, or the volume's filesystem is one that is not known here; else the device
 * `fd` must hold ext2, 3 or 4, XFS or btrfs, or nothing but zeroes where they begin.
 *
 * CAIRN_PRECONDITION  it does not
 */
int backup_device_filesystem(int fd, const json_t *objects, struct cairn_err *err);

#endif
