/* SPDX-License-Identifier: Apache-2.0 */

/* Iterates over the changed ranges, for calls that answer in pages.
 *
 * Adjacent extents of the same kind are merged. If the index no longer knows the changes
 * since the base (it has expired, or a set was lost), the caller may request everything
 * instead: then the whole volume is reported, with unallocated ranges of the target
 * reported as zero, so that a copy made from it is correct whatever it contained before.
 *
 * Belongs to one thread at a time.
 */
#ifndef CAIRN_CSI_CHANGES_H
#define CAIRN_CSI_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"
#include "pool/pool.h"

struct cairn_err;
struct csi_changes;
struct csi_driver;
struct net_call;

struct csi_changes_spec {
	const char *base; /* id; NULL or "": report the allocated blocks of the target */
	const char *target;
	uint64_t start;
	bool all_if_unknown;
	struct net_call *call; /* cancels the iteration */
};

/* Codes of csi_find_snapshot() and pool_delta_open(). */
int csi_changes_open(struct csi_driver *driver, const struct csi_changes_spec *spec,
		     struct csi_changes **ret, struct cairn_err *err);
void csi_changes_free(struct csi_changes *changes);
CAIRN_DEFINE_CLEANUP(struct csi_changes, csi_changes_free);

const struct pool_snapshot *csi_changes_target(const struct csi_changes *changes);
/* NULL if there is no base, or its changes are not known. */
const struct pool_snapshot *csi_changes_base(const struct csi_changes *changes);

/* The next range; *ret_some is false after the last one. The first range is clipped to the
 * start. After an error the iteration must end. */
int csi_changes_next(struct csi_changes *changes, struct block_extent *ret, bool *ret_some,
		     struct cairn_err *err);

#endif
