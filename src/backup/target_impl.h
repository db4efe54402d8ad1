/* SPDX-License-Identifier: Apache-2.0 */

/* What the files behind target.h share. */
#ifndef CAIRN_BACKUP_TARGET_IMPL_H
#define CAIRN_BACKUP_TARGET_IMPL_H

struct cairn_err;
struct target;
struct target_spec;

/* Opens a file or a block device, new or old. */
int target_open_path(const struct target_spec *spec, struct target *target, struct cairn_err *err);

/* Gives a new file, which is synced, its name. */
int target_publish(struct target *target, struct cairn_err *err);

#endif
