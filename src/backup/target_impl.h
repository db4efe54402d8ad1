/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the files that implement target.h. */
#ifndef CAIRN_BACKUP_TARGET_IMPL_H
#define CAIRN_BACKUP_TARGET_IMPL_H

struct cairn_err;
struct target;
struct target_spec;

/* Opens a file or a block device, new or existing. */
int backup_target_open_path(const struct target_spec *spec, struct target *target,
			    struct cairn_err *err);

/* Gives a new file, which has been synced, its name. */
int backup_target_publish(struct target *target, struct cairn_err *err);

#endif
