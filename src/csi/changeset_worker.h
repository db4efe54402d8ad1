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
struct csi_changeset_worker;
struct pool;

/* Limit of queued work. */
#define CSI_COMPLETER_QUEUE 4096U

int csi_changeset_worker_new(struct csi_changeset_worker **ret, struct cairn_err *err);
/* Aborts a running comparison, which is repeated later. */
void csi_changeset_worker_free(struct csi_changeset_worker *completer);
CAIRN_DEFINE_CLEANUP(struct csi_changeset_worker, csi_changeset_worker_free);

/* With `snapshot_id` NULL: clean up the pool. */
void csi_changeset_worker_add(struct csi_changeset_worker *completer, struct pool *pool,
			      const char *snapshot_id);

#endif
