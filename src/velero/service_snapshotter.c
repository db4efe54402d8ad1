/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/service_snapshotter.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "net/grpc/call.h"
#include "proto/message.h"
#include "velero/service_message.h"
#include "velero/services.h"
#include "velero/snapshotter.h"
#include "velero/velero_names.h"
#include "velero_shared.pb-c.h"
#include "velero_snapshotter.pb-c.h"

static int check_snapshotter_call(void *arg)
{
	return net_call_check(arg);
}

static struct velero_snapshotter snapshotter_of(struct net_call *call, void *arg)
{
	const struct velero_services *services = arg;

	return (struct velero_snapshotter){
		.world = services->world,
		.how = {.check = check_snapshotter_call, .check_arg = call}};
}

/* Receives a request; `plugin` is its first field in every message of this service. */
static int receive_for(struct net_call *call, const ProtobufCMessageDescriptor *type,
		       ProtobufCMessage **ret, struct cairn_err *err)
{
	int rc = velero_receive(call, type, ret, err);
	const char *plugin;

	if (rc)
		return rc;
	plugin = ((const Generated__DeleteSnapshotRequest *)(const void *)*ret)->plugin;
	if (strcmp(plugin, VELERO_SNAPSHOTTER) == 0)
		return 0;
	return cairn_err_set(err, CAIRN_NOT_FOUND,
			     "VolumeSnapshotter '%.253s' is not in this plugin", plugin);
}

static int reply_empty(struct net_call *call, struct cairn_err *err)
{
	Generated__Empty response;

	generated__empty__init(&response);
	return velero_reply(call, &response.base, err);
}

int velero_serve_init(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_auto_free struct velero_pair *config = NULL;
	const Generated__SnapshotterInitRequest *request;
	int rc = receive_for(call, &generated__snapshotter_init_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	config = cairn_calloc(request->n_config + 1, sizeof(*config));
	if (!config)
		return cairn_err_nomem(err, "a configuration");
	for (size_t i = 0; i < request->n_config; i++)
		config[i] =
			(struct velero_pair){request->config[i]->key, request->config[i]->value};
	rc = velero_snapshotter_init(((const struct velero_services *)arg)->world, config,
				     request->n_config, err);
	return rc ? rc : reply_empty(call, err);
}

/* The PersistentVolume of a request; the caller's. */
static int parse_volume(const ProtobufCBinaryData *bytes, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = kube_json_parse((const char *)bytes->data, bytes->len, &object, err);

	if (rc)
		return cairn_err_wrap(err, "the volume");
	if (!json_is_object(object) || !*kube_name(object))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the volume is not an object of Kubernetes");
	*ret = cairn_take(object);
	return 0;
}

int velero_serve_volume_id(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_snapshotter s = snapshotter_of(call, arg);
	proto_auto_message ProtobufCMessage *message = NULL;
	kube_auto_json json_t *pv = NULL;
	Generated__GetVolumeIDResponse response;
	const char *id = "";
	int rc = receive_for(call, &generated__get_volume_idrequest__descriptor, &message, err);

	if (!rc)
		rc = parse_volume(&((const Generated__GetVolumeIDRequest *)(const void *)message)
					   ->persistent_volume,
				  &pv, err);
	if (!rc)
		rc = velero_snapshotter_volume_id(&s, pv, &id, err);
	if (rc)
		return rc;
	generated__get_volume_idresponse__init(&response);
	response.volume_id = proto_text(id);
	return velero_reply(call, &response.base, err);
}

int velero_serve_volume_info(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_snapshotter s = snapshotter_of(call, arg);
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_auto_free char *type = NULL;
	Generated__GetVolumeInfoResponse response;
	int rc = receive_for(call, &generated__get_volume_info_request__descriptor, &message, err);

	if (!rc)
		rc = velero_snapshotter_volume_type(
			&s,
			((const Generated__GetVolumeInfoRequest *)(const void *)message)->volume_id,
			&type, err);
	if (rc)
		return rc;
	generated__get_volume_info_response__init(&response);
	response.volume_type = type;
	return velero_reply(call, &response.base, err);
}

int velero_serve_create_snapshot(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_snapshotter s = snapshotter_of(call, arg);
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_auto_free struct velero_pair *tags = NULL;
	const Generated__CreateSnapshotRequest *request;
	Generated__CreateSnapshotResponse response;
	char id[VELERO_SNAPSHOT_ID_MAX];
	int rc = receive_for(call, &generated__create_snapshot_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	tags = cairn_calloc(request->n_tags + 1, sizeof(*tags));
	if (!tags)
		return cairn_err_nomem(err, "tags");
	for (size_t i = 0; i < request->n_tags; i++)
		tags[i] = (struct velero_pair){request->tags[i]->key, request->tags[i]->value};
	rc = velero_snapshotter_create(&s, request->volume_id, request->volume_az, tags,
				       request->n_tags, id, err);
	if (rc)
		return rc;
	generated__create_snapshot_response__init(&response);
	response.snapshot_id = id;
	return velero_reply(call, &response.base, err);
}

int velero_serve_create_volume(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_snapshotter s = snapshotter_of(call, arg);
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_auto_free char *volume = NULL;
	const Generated__CreateVolumeRequest *request;
	Generated__CreateVolumeResponse response;
	int rc = receive_for(call, &generated__create_volume_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = velero_snapshotter_restore(&s, request->snapshot_id, request->volume_type,
					request->volume_az, &volume, err);
	if (rc)
		return rc;
	generated__create_volume_response__init(&response);
	response.volume_id = volume;
	return velero_reply(call, &response.base, err);
}

int velero_serve_set_volume_id(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_snapshotter s = snapshotter_of(call, arg);
	proto_auto_message ProtobufCMessage *message = NULL;
	kube_auto_json json_t *pv = NULL;
	cairn_auto_free char *text = NULL;
	const Generated__SetVolumeIDRequest *request;
	Generated__SetVolumeIDResponse response;
	int rc = receive_for(call, &generated__set_volume_idrequest__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = parse_volume(&request->persistent_volume, &pv, err);
	if (!rc)
		rc = velero_snapshotter_set_volume(&s, pv, request->volume_id, err);
	if (rc)
		return rc;
	generated__set_volume_idresponse__init(&response);
	text = kube_json_text(pv, &response.persistent_volume.len);
	if (!text)
		return cairn_err_nomem(err, "the volume");
	response.persistent_volume.data = (uint8_t *)text;
	return velero_reply(call, &response.base, err);
}

int velero_serve_delete_snapshot(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_snapshotter s = snapshotter_of(call, arg);
	proto_auto_message ProtobufCMessage *message = NULL;
	int rc = receive_for(call, &generated__delete_snapshot_request__descriptor, &message, err);

	if (!rc)
		rc = velero_snapshotter_delete(
			&s,
			((const Generated__DeleteSnapshotRequest *)(const void *)message)
				->snapshot_id,
			err);
	return rc ? rc : reply_empty(call, err);
}
