/* SPDX-License-Identifier: Apache-2.0 */

/* What the driver under test says about itself. */

#include "conformance/target.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi_controller.pb-c.h"
#include "csi_group.pb-c.h"
#include "csi_identity.pb-c.h"
#include "csi_node.pb-c.h"
#include "proto/message.h"

/* CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT; the generated name has more than a line. */
#define GROUP_SNAPSHOTS 1

static int ask(struct target *t, const char *path, const ProtobufCMessageDescriptor *type,
	       ProtobufCMessage **ret, struct cairn_err *err)
{
	struct cairn_buf empty = CAIRN_BUF_INIT(REQUEST_MAX);

	return target_unary(t, path, &empty, type, ret, err);
}

static int learn_name(struct target *t, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GetPluginInfoResponse *info;
	int rc = ask(t, "/csi.v1.Identity/GetPluginInfo",
		     &csi__v1__get_plugin_info_response__descriptor, &message, err);

	if (rc)
		return rc;
	info = (const void *)message;
	t->name = cairn_strdup(info->name);
	t->version = cairn_strdup(info->vendor_version);
	return t->name && t->version ? 0 : cairn_err_nomem(err, "name");
}

static int learn_services(struct target *t, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GetPluginCapabilitiesResponse *said;
	int rc = ask(t, "/csi.v1.Identity/GetPluginCapabilities",
		     &csi__v1__get_plugin_capabilities_response__descriptor, &message, err);

	if (rc)
		return rc;
	said = (const void *)message;
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__PluginCapability *c = said->capabilities[i];

		if (c->type_case != CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE)
			continue;
#define HAS(what) (c->service->type == CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__##what)
		t->has_metadata = t->has_metadata || HAS(SNAPSHOT_METADATA_SERVICE);
		t->has_topology = t->has_topology || HAS(VOLUME_ACCESSIBILITY_CONSTRAINTS);
		t->can_group = t->can_group || HAS(GROUP_CONTROLLER_SERVICE);
#undef HAS
	}
	return 0;
}

static int learn_controller(struct target *t, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__ControllerGetCapabilitiesResponse *said;
	int rc = ask(t, "/csi.v1.Controller/ControllerGetCapabilities",
		     &csi__v1__controller_get_capabilities_response__descriptor, &message, err);

	if (rc)
		return rc;
	said = (const void *)message;
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__ControllerServiceCapability *c = said->capabilities[i];

		if (c->type_case != CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC)
			continue;
#define HAS(what) (c->rpc->type == CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##what)
		t->can_attach = t->can_attach || HAS(PUBLISH_UNPUBLISH_VOLUME);
		t->can_expand = t->can_expand || HAS(EXPAND_VOLUME);
		t->can_list_snapshots = t->can_list_snapshots || HAS(LIST_SNAPSHOTS);
		t->can_get_snapshot = t->can_get_snapshot || HAS(GET_SNAPSHOT);
#undef HAS
	}
	return 0;
}

static int learn_groups(struct target *t, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GroupControllerGetCapabilitiesResponse *said;
	bool can = false;
	int rc;

	if (!t->can_group)
		return 0;
	rc = ask(t, "/csi.v1.GroupController/GroupControllerGetCapabilities",
		 &csi__v1__group_controller_get_capabilities_response__descriptor, &message, err);
	if (rc)
		return rc;
	said = (const void *)message;
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__GroupControllerServiceCapability *c = said->capabilities[i];

		can = can ||
		      (c->type_case == CSI__V1__GROUP_CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC &&
		       c->rpc->type == GROUP_SNAPSHOTS);
	}
	t->can_group = can;
	return 0;
}

static int learn_info(struct target *t, const Csi__V1__NodeGetInfoResponse *info,
		      struct cairn_err *err)
{
	const Csi__V1__Topology *topology = info->accessible_topology;
	int rc = 0;

	t->node_id = cairn_strdup(info->node_id);
	if (!t->node_id)
		return cairn_err_nomem(err, "node id");
	for (size_t i = 0; !rc && topology && i < topology->n_segments; i++)
		rc = request_map_add(&t->segments, topology->segments[i]->key,
				     topology->segments[i]->value, err);
	return rc;
}

static int learn_node(struct target *t, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	proto_auto_message ProtobufCMessage *info = NULL;
	const Csi__V1__NodeGetCapabilitiesResponse *said;
	int rc = ask(t, "/csi.v1.Node/NodeGetCapabilities",
		     &csi__v1__node_get_capabilities_response__descriptor, &message, err);

	if (!rc)
		rc = ask(t, "/csi.v1.Node/NodeGetInfo",
			 &csi__v1__node_get_info_response__descriptor, &info, err);
	if (rc)
		return rc;
	said = (const void *)message;
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__NodeServiceCapability *c = said->capabilities[i];

		if (c->type_case != CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC)
			continue;
#define HAS(what) (c->rpc->type == CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##what)
		t->must_stage = t->must_stage || HAS(STAGE_UNSTAGE_VOLUME);
		t->can_expand_node = t->can_expand_node || HAS(EXPAND_VOLUME);
#undef HAS
	}
	return learn_info(t, (const void *)info, err);
}

int target_learn(struct target *t, struct cairn_err *err)
{
	int rc = learn_name(t, err);

	if (!rc)
		rc = learn_services(t, err);
	if (!rc)
		rc = learn_controller(t, err);
	if (!rc)
		rc = learn_groups(t, err);
	return rc ? rc : learn_node(t, err);
}
