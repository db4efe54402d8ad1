/* SPDX-License-Identifier: Apache-2.0 */

/* What changed, range by range, for calls that answer in pages.
 *
 * Neighbours of one kind are one range. Where the index can not tell what
 * changed since the base (its time has passed, a set was lost) the caller may
 * ask for everything instead: then the whole volume is told, and what the target
 * has not allocated is told as zero, so that a copy made from it is right
 * whatever it held before.
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
	const char *base; /* id; NULL or "": what the target has allocated */
	const char *target;
	uint64_t start;
	bool all_if_unknown;
	struct net_call *call; /* given up when this one is */
};

/* Codes of csi_find_snapshot() and pool_delta_open(). */
int csi_changes_open(struct csi_driver *driver, const struct csi_changes_spec *spec,
		     struct csi_changes **ret, struct cairn_err *err);
void csi_changes_free(struct csi_changes *changes);
CAIRN_DEFINE_CLEANUP(struct csi_changes, csi_changes_free);

const struct pool_snapshot *csi_changes_target(const struct csi_changes *changes);
/* NULL: without a base, or its changes are not known. */
const struct pool_snapshot *csi_changes_base(const struct csi_changes *changes);

/* The next range; *ret_some is false after the last one. The first is clipped to
 * the start. An error is final. */
int csi_changes_next(struct csi_changes *changes, struct block_extent *ret, bool *ret_some,
		     struct cairn_err *err);

#endif
