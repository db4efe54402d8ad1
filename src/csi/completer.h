/* SPDX-License-Identifier: Apache-2.0 */

/* A thread that makes change sets behind acknowledged snapshots, and cleans up
 * behind the start of a driver what a killed one left.
 *
 * Losing its queue loses nothing: a pending set is recorded in the catalogue,
 * and whoever needs it first makes it. So a full queue just drops the work.
 */
#ifndef CAIRN_CSI_COMPLETER_H
#define CAIRN_CSI_COMPLETER_H

#include "base/cleanup.h"

struct cairn_err;
struct csi_completer;
struct pool;

/* Work that waits at most. */
#define CSI_COMPLETER_QUEUE 4096U

int csi_completer_new(struct csi_completer **ret, struct cairn_err *err);
/* Stops in the middle of a comparison; it is made again later. */
void csi_completer_free(struct csi_completer *completer);
CAIRN_DEFINE_CLEANUP(struct csi_completer, csi_completer_free);

/* `snapshot_id` NULL: clean the pool up. */
void csi_completer_add(struct csi_completer *completer, struct pool *pool, const char *snapshot_id);

#endif
