/* SPDX-License-Identifier: Apache-2.0 */

/* Client of the CSI driver that the HTTPS sidecar serves. Calls block; thread-safe. */
#ifndef CAIRN_AGGAPI_CSI_H
#define CAIRN_AGGAPI_CSI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "older/data/data_block.h"

struct aggapi_csi;
struct aggapi_question;
struct cairn_err;

#define AGGAPI_DRIVER_NAME_MAX 64

/* Does not connect yet. `socket` is "unix:///path" or "unix:/path". */
int aggapi_csi_new(const char *socket, uint64_t timeout_ms, struct aggapi_csi **ret,
		   struct cairn_err *err);
void aggapi_csi_free(struct aggapi_csi *csi);
CAIRN_DEFINE_CLEANUP(struct aggapi_csi, aggapi_csi_free);

/* Returns its name, and whether it has LIST_BLOCK_SNAPSHOT_DELTAS; retries until it
 * answers or the timeout is over. */
int aggapi_csi_identify(struct aggapi_csi *csi, char out[AGGAPI_DRIVER_NAME_MAX],
			bool *ret_supports, struct cairn_err *err);

/* ListSnapshotDeltas; the answer is in the format of wire.h, with tokens for the holder. */
int aggapi_csi_deltas(struct aggapi_csi *csi, const struct aggapi_question *question, json_t **ret,
		      struct cairn_err *err);

/* Reads the data of a block, as data_block_get(). */
int aggapi_csi_block(struct aggapi_csi *csi, const char *token, const char *holder,
		     data_piece_fn piece, void *arg, struct cairn_err *err);

#endif
