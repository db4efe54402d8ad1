/* SPDX-License-Identifier: Apache-2.0 */

#include "csi_client.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "csi_controller.pb-c.h"
#include "csi_metadata.pb-c.h"
#include "net/grpc/grpc_client.h"
#include "proto/block_metadata.h"
#include "proto/message.h"

#define REQUEST_MAX 65536

int csi_client_init(struct csi_client *client, const char *socket_path, uint64_t timeout_ms,
		    struct cairn_err *err)
{
	struct net_channel_options options = {.backoff_first_ms = 20, .backoff_max_ms = 200};
	char target[256];

	snprintf(target, sizeof(target), "unix:%s", socket_path);
	options.target = target;
	client->timeout_ms = timeout_ms;
	return net_channel_new(&options, &client->channel, err);
}

/* protobuf-c's objects want char *, but packing does not write to them. */
static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static struct net_rpc_options to(const struct csi_client *client, const char *method)
{
	return (struct net_rpc_options){
		.path = method, .timeout_ms = client->timeout_ms, .wait_for_ready = true};
}

static int call(const struct csi_client *client, const char *method,
		const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
		ProtobufCMessage **ret, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(REQUEST_MAX);
	struct net_rpc_options options = to(client, method);
	cairn_auto_free uint8_t *reply = NULL;
	size_t n;
	int rc;

	proto_pack(request, &bytes);
	rc = net_rpc_unary(client->channel, &options, bytes.data ? bytes.data : (uint8_t *)&n,
			   bytes.len, &reply, &n, err);
	return rc ? rc : proto_unpack(type, reply, n, ret, err);
}

int csi_client_create_volume(const struct csi_client *client, const char *name, uint64_t size,
			     char ret_id[CSI_CLIENT_ID_SIZE], struct cairn_err *err)
{
	Csi__V1__CreateVolumeRequest request;
	Csi__V1__CapacityRange range;
	Csi__V1__VolumeCapability capability, *list[] = {&capability};
	Csi__V1__VolumeCapability__BlockVolume block;
	Csi__V1__VolumeCapability__AccessMode mode;
	proto_auto_message ProtobufCMessage *reply = NULL;
	int rc;

	csi__v1__create_volume_request__init(&request);
	csi__v1__capacity_range__init(&range);
	csi__v1__volume_capability__init(&capability);
	csi__v1__volume_capability__block_volume__init(&block);
	csi__v1__volume_capability__access_mode__init(&mode);
	mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	capability.block = &block;
	capability.access_mode = &mode;
	range.required_bytes = (int64_t)size;
	request.name = text(name);
	request.capacity_range = &range;
	request.volume_capabilities = list;
	request.n_volume_capabilities = 1;
	rc = call(client, "/csi.v1.Controller/CreateVolume", &request.base,
		  &csi__v1__create_volume_response__descriptor, &reply, err);
	if (!rc)
		snprintf(ret_id, CSI_CLIENT_ID_SIZE, "%s",
			 ((Csi__V1__CreateVolumeResponse *)(void *)reply)->volume->volume_id);
	return rc;
}

int csi_client_delete_volume(const struct csi_client *client, const char *id, struct cairn_err *err)
{
	Csi__V1__DeleteVolumeRequest request;
	proto_auto_message ProtobufCMessage *reply = NULL;

	csi__v1__delete_volume_request__init(&request);
	request.volume_id = text(id);
	return call(client, "/csi.v1.Controller/DeleteVolume", &request.base,
		    &csi__v1__delete_volume_response__descriptor, &reply, err);
}

int csi_client_create_snapshot(const struct csi_client *client, const char *volume_id,
			       const char *name, char ret_id[CSI_CLIENT_ID_SIZE],
			       struct cairn_err *err)
{
	Csi__V1__CreateSnapshotRequest request;
	proto_auto_message ProtobufCMessage *reply = NULL;
	int rc;

	csi__v1__create_snapshot_request__init(&request);
	request.source_volume_id = text(volume_id);
	request.name = text(name);
	rc = call(client, "/csi.v1.Controller/CreateSnapshot", &request.base,
		  &csi__v1__create_snapshot_response__descriptor, &reply, err);
	if (!rc)
		snprintf(ret_id, CSI_CLIENT_ID_SIZE, "%s",
			 ((Csi__V1__CreateSnapshotResponse *)(void *)reply)->snapshot->snapshot_id);
	return rc;
}

int csi_client_delete_snapshot(const struct csi_client *client, const char *id,
			       struct cairn_err *err)
{
	Csi__V1__DeleteSnapshotRequest request;
	proto_auto_message ProtobufCMessage *reply = NULL;

	csi__v1__delete_snapshot_request__init(&request);
	request.snapshot_id = text(id);
	return call(client, "/csi.v1.Controller/DeleteSnapshot", &request.base,
		    &csi__v1__delete_snapshot_response__descriptor, &reply, err);
}

int csi_client_count(const struct csi_client *client, size_t *ret_volumes, size_t *ret_snapshots,
		     struct cairn_err *err)
{
	Csi__V1__ListVolumesRequest volumes;
	Csi__V1__ListSnapshotsRequest snapshots;
	proto_auto_message ProtobufCMessage *v = NULL, *s = NULL;
	int rc;

	csi__v1__list_volumes_request__init(&volumes);
	csi__v1__list_snapshots_request__init(&snapshots);
	rc = call(client, "/csi.v1.Controller/ListVolumes", &volumes.base,
		  &csi__v1__list_volumes_response__descriptor, &v, err);
	if (!rc)
		rc = call(client, "/csi.v1.Controller/ListSnapshots", &snapshots.base,
			  &csi__v1__list_snapshots_response__descriptor, &s, err);
	if (rc)
		return rc;
	*ret_volumes = ((Csi__V1__ListVolumesResponse *)(void *)v)->n_entries;
	*ret_snapshots = ((Csi__V1__ListSnapshotsResponse *)(void *)s)->n_entries;
	return 0;
}

static const char *pack_stream(const char *base, const char *target, struct cairn_buf *bytes)
{
	if (base) {
		Csi__V1__GetMetadataDeltaRequest request;

		csi__v1__get_metadata_delta_request__init(&request);
		request.base_snapshot_id = text(base);
		request.target_snapshot_id = text(target);
		proto_pack(&request.base, bytes);
		return "/csi.v1.SnapshotMetadata/GetMetadataDelta";
	}
	Csi__V1__GetMetadataAllocatedRequest request;

	csi__v1__get_metadata_allocated_request__init(&request);
	request.snapshot_id = text(target);
	proto_pack(&request.base, bytes);
	return "/csi.v1.SnapshotMetadata/GetMetadataAllocated";
}

int csi_client_stream(const struct csi_client *client, const char *base, const char *target,
		      const struct block_sink *sink, struct csi_stream *ret, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	struct net_rpc_options options = to(client, pack_stream(base, target, &request));
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct proto_block_scan scan = {0};
	uint64_t start = cairn_monotonic_ns();
	const uint8_t *data;
	size_t n;
	int rc = net_rpc_start(client->channel, &options, &rpc, err);

	*ret = (struct csi_stream){0};
	if (!rc)
		rc = net_rpc_send(rpc, request.data, request.len, true, err);
	while (!rc && (rc = net_rpc_recv(rpc, &data, &n, err)) == 1) {
		if (scan.messages == 0)
			ret->first_ns = cairn_monotonic_ns() - start;
		rc = proto_block_scan(&scan, data, n, sink, err);
	}
	ret->wall_ns = cairn_monotonic_ns() - start;
	ret->messages = scan.messages;
	ret->tuples = scan.tuples;
	ret->bytes = scan.bytes_reported;
	ret->capacity = scan.capacity;
	return rc;
}
