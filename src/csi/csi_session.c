/* SPDX-License-Identifier: Apache-2.0 */

/* SnapshotMetadata of the session flavour. The sidecar authorizes callers: the driver
 * neither checks nor logs the token. */

#include "csi/metadata.h"

#include "base/err.h"
#include "csi/service.h"
#include "proto/message.h"
#include "snapshot_session.pb-c.h"

int csi_session_allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const GetAllocatedRequest *request;
	int rc = csi_request_recv(call, &get_allocated_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = csi_require(request->volume_id, "volume_id", err);
	if (!rc)
		rc = csi_require(request->snapshot, "snapshot", err);
	if (rc)
		return rc;
	struct csi_metadata_query query = {
		.flavour = CSI_METADATA_SESSION,
		.volume = request->volume_id,
		.target = request->snapshot,
		.starting_offset = request->starting_offset,
		.max_results = request->max_results,
	};

	return csi_metadata_stream(call, arg, &query, err);
}

int csi_session_delta(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const GetDeltaRequest *request;
	int rc = csi_request_recv(call, &get_delta_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = csi_require(request->volume_id, "volume_id", err);
	if (!rc)
		rc = csi_require(request->base_snapshot, "base_snapshot", err);
	if (!rc)
		rc = csi_require(request->target_snapshot, "target_snapshot", err);
	if (rc)
		return rc;
	struct csi_metadata_query query = {
		.flavour = CSI_METADATA_SESSION,
		.volume = request->volume_id,
		.base = request->base_snapshot,
		.target = request->target_snapshot,
		.starting_offset = request->starting_byte_offset,
		.max_results = request->max_results,
	};

	return csi_metadata_stream(call, arg, &query, err);
}
