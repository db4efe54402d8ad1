/* SPDX-License-Identifier: Apache-2.0 */

/* Which node a volume is published to, and how: kept as a note with it. */
#ifndef CAIRN_CSI_PUBLISHED_H
#define CAIRN_CSI_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct pool;

/* This driver knows one node, its own, so there is one publication at most. */
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

/* How many volumes of the pool are published. */
int csi_published_count(struct pool *pool, uint64_t *ret, struct cairn_err *err);

#endif
