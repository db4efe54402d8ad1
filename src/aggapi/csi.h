/* SPDX-License-Identifier: Apache-2.0 */

/* The CSI driver beside the HTTPS sidecar. Calls block; any thread. */
#ifndef CAIRN_AGGAPI_CSI_H
#define CAIRN_AGGAPI_CSI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct aggapi_csi;
struct aggapi_question;
struct cairn_err;

#define AGGAPI_DRIVER_NAME_MAX 64

/* Does not connect yet. `socket` is "unix:///path" or "unix:/path". */
int aggapi_csi_new(const char *socket, uint64_t timeout_ms, struct aggapi_csi **ret,
		   struct cairn_err *err);
void aggapi_csi_free(struct aggapi_csi *csi);
CAIRN_DEFINE_CLEANUP(struct aggapi_csi, aggapi_csi_free);

/* Its name, and whether it says LIST_BLOCK_SNAPSHOT_DELTAS; asked for until it
 * answers or the timeout is over. */
int aggapi_csi_identify(struct aggapi_csi *csi, char out[AGGAPI_DRIVER_NAME_MAX],
			bool *ret_supports, struct cairn_err *err);

/* ListSnapshotDeltas; the answer as wire.h has it, with tokens for the holder. */
int aggapi_csi_deltas(struct aggapi_csi *csi, const struct aggapi_question *question, json_t **ret,
		      struct cairn_err *err);

/* The data of a block, in pieces, for a data token of the driver and the text that it
 * was bound to (holder.h). `piece` ends it with what
 * it returns when that is not 0.
 *
 * CAIRN_UNAUTHENTICATED and others: what the driver says of the token
 */
int aggapi_csi_block(struct aggapi_csi *csi, const char *token, const char *holder,
		     int (*piece)(void *arg, const void *data, size_t n, struct cairn_err *err),
		     void *arg, struct cairn_err *err);

#endif
