/* SPDX-License-Identifier: Apache-2.0 */

/* A filesystem that is on its way to its staging path: a note from before it is
 * mounted until it has its device's size, so that a call which is repeated after a
 * crash does not take it for done. */
#ifndef CAIRN_CSI_STAGING_H
#define CAIRN_CSI_STAGING_H

#include <stdbool.h>

struct cairn_err;
struct pool;

int csi_staging_begin(struct pool *pool, const char *volume_id, struct cairn_err *err);
int csi_staging_end(struct pool *pool, const char *volume_id, struct cairn_err *err);
int csi_staging_is_open(struct pool *pool, const char *volume_id, bool *ret, struct cairn_err *err);

#endif
