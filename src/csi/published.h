/* SPDX-License-Identifier: Apache-2.0 */

/* The node that a volume is published to, and the access mode: stored as a note with the
 * volume. */
#ifndef CAIRN_CSI_PUBLISHED_H
#define CAIRN_CSI_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct pool;

/* This driver knows only its own node, so there is at most one publication. */
struct csi_publication {
	bool published;
	bool read_only;
	int mode; /* access mode, and the access type below it */
	bool block;
};

int csi_published_get(struct pool *pool, const char *volume_id, struct csi_publication *ret,
		      struct cairn_err *err);
int csi_published_put(struct pool *pool, const char *volume_id,
		      const struct csi_publication *publication, struct cairn_err *err);
int csi_published_drop(struct pool *pool, const char *volume_id, struct cairn_err *err);

/* Counts the published volumes of the pool. */
int csi_published_count(struct pool *pool, uint64_t *ret, struct cairn_err *err);

#endif
