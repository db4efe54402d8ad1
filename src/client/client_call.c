/* SPDX-License-Identifier: Apache-2.0 */

#include "client/client_call.h"

#include "base/buf.h"
#include "proto/message.h"
#include "snapshotmetadata.pb-c.h"

const char *client_call_path(const struct client_call *call)
{
	return call->base_id ? "/snapshotmetadata.SnapshotMetadata/GetMetadataDelta"
			     : "/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated";
}

static void client_call_pack_allocated(const struct client_call *call, struct cairn_buf *buf)
{
	Snapshotmetadata__GetMetadataAllocatedRequest request;

	snapshotmetadata__get_metadata_allocated_request__init(&request);
	request.security_token = proto_text(call->token);
	request.namespace_ = proto_text(call->namespace_name);
	request.snapshot_name = proto_text(call->snapshot);
	request.starting_offset = (int64_t)call->starting_offset;
	request.max_results = (int32_t)call->max_results;
	proto_pack(&request.base, buf);
}

void client_call_pack(const struct client_call *call, struct cairn_buf *buf)
{
	Snapshotmetadata__GetMetadataDeltaRequest request;

	if (!call->base_id) {
		client_call_pack_allocated(call, buf);
		return;
	}
	snapshotmetadata__get_metadata_delta_request__init(&request);
	request.security_token = proto_text(call->token);
	request.namespace_ = proto_text(call->namespace_name);
	request.base_snapshot_id = proto_text(call->base_id);
	request.target_snapshot_name = proto_text(call->snapshot);
	request.starting_offset = (int64_t)call->starting_offset;
	request.max_results = (int32_t)call->max_results;
	proto_pack(&request.base, buf);
}
