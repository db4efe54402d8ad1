/* SPDX-License-Identifier: Apache-2.0 */

/* Marks a filesystem whose staging is in progress: a note that exists from before the
 * mount until the filesystem has grown to its device's size. A call that is repeated after
 * a crash therefore does not take it as complete. */
#ifndef CAIRN_CSI_STAGING_H
#define CAIRN_CSI_STAGING_H

#include <stdbool.h>

struct cairn_err;
struct pool;

int csi_staging_begin(struct pool *pool, const char *volume_id, struct cairn_err *err);
int csi_staging_end(struct pool *pool, const char *volume_id, struct cairn_err *err);
int csi_staging_is_open(struct pool *pool, const char *volume_id, bool *ret, struct cairn_err *err);

#endif
