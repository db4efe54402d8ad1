/* SPDX-License-Identifier: Apache-2.0 */

/* A thread that builds change sets after snapshots were acknowledged, and cleans up after
 * a killed driver at the start.
 *
 * The queue may be lost without harm: a pending set is recorded in the catalogue, and the
 * first operation that needs it builds it. So a full queue drops work.
 */
#ifndef CAIRN_CSI_COMPLETER_H
#define CAIRN_CSI_COMPLETER_H

#include "base/cleanup.h"

struct cairn_err;
struct csi_completer;
struct pool;

/* Limit of queued work. */
#define CSI_COMPLETER_QUEUE 4096U

int csi_completer_new(struct csi_completer **ret, struct cairn_err *err);
/* Aborts a running comparison, which is repeated later. */
void csi_completer_free(struct csi_completer *completer);
CAIRN_DEFINE_CLEANUP(struct csi_completer, csi_completer_free);

/* With `snapshot_id` NULL: clean up the pool. */
void csi_completer_add(struct csi_completer *completer, struct pool *pool, const char *snapshot_id);

#endif
