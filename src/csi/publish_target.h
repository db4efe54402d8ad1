/* SPDX-License-Identifier: Apache-2.0 */

/* The target paths where a volume is published on this node, with a note for each. The
 * kernel is authoritative: a noted path where nothing is mounted any more (the node was
 * rebooted) does not count. */
#ifndef CAIRN_CSI_TARGET_H
#define CAIRN_CSI_TARGET_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct pool;

int csi_target_add(struct pool *pool, const char *volume_id, const char *path, bool read_only,
		   struct cairn_err *err);
int csi_target_remove(struct pool *pool, const char *volume_id, const char *path,
		      struct cairn_err *err);

struct csi_targets {
	size_t others; /* mounted targets other than `path` */
	bool devices;  /* at least one target is the device, not its filesystem */
	bool this_one; /* `path` is noted and mounted */
	bool this_read_only;
	bool this_device;
	bool foreign; /* there is a mount at `path` without a note */
};

/* Removes all of them; for a deleted volume. */
int csi_targets_drop(struct pool *pool, const char *volume_id, struct cairn_err *err);

/* `path` "" matches none of them. */
int csi_targets_get(struct pool *pool, const char *volume_id, const char *path,
		    struct csi_targets *ret, struct cairn_err *err);

#endif
