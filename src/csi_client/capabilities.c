/* SPDX-License-Identifier: Apache-2.0 */

#include "csi_client/capabilities.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "csi_client/driver_identity.h"
#include "csi_controller.pb-c.h"
#include "csi_group.pb-c.h"
#include "csi_node.pb-c.h"
#include "proto/message.h"

/* CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT; the generated name is longer than a line. */
#define GROUP_SNAPSHOTS 1

int csi_client_controller(const struct csi_client *client, struct csi_client_controller *ret,
			  struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	const Csi__V1__ControllerGetCapabilitiesResponse *said;
	int rc = csi_client_ask(client, "/csi.v1.Controller/ControllerGetCapabilities",
				&csi__v1__controller_get_capabilities_response__descriptor, &answer,
				err);

	if (rc)
		return rc;
	said = (const void *)answer;
	*ret = (struct csi_client_controller){0};
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__ControllerServiceCapability *c = said->capabilities[i];

		if (c->type_case != CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC)
			continue;
#define HAS(what) (c->rpc->type == CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##what)
		ret->attach |= HAS(PUBLISH_UNPUBLISH_VOLUME);
		ret->expand |= HAS(EXPAND_VOLUME);
		ret->list_snapshots |= HAS(LIST_SNAPSHOTS);
		ret->get_snapshot |= HAS(GET_SNAPSHOT);
		ret->list_deltas |= HAS(LIST_BLOCK_SNAPSHOT_DELTAS);
#undef HAS
	}
	return 0;
}

int csi_client_node(const struct csi_client *client, struct csi_client_node *ret,
		    struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	const Csi__V1__NodeGetCapabilitiesResponse *said;
	int rc = csi_client_ask(client, "/csi.v1.Node/NodeGetCapabilities",
				&csi__v1__node_get_capabilities_response__descriptor, &answer, err);

	if (rc)
		return rc;
	said = (const void *)answer;
	*ret = (struct csi_client_node){0};
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__NodeServiceCapability *c = said->capabilities[i];

		if (c->type_case != CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC)
			continue;
#define HAS(what) (c->rpc->type == CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##what)
		ret->stage |= HAS(STAGE_UNSTAGE_VOLUME);
		ret->expand |= HAS(EXPAND_VOLUME);
#undef HAS
	}
	return 0;
}

int csi_client_groups(const struct csi_client *client, bool *ret, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	const Csi__V1__GroupControllerGetCapabilitiesResponse *said;
	int rc = csi_client_ask(client, "/csi.v1.GroupController/GroupControllerGetCapabilities",
				&csi__v1__group_controller_get_capabilities_response__descriptor,
				&answer, err);

	if (rc)
		return rc;
	said = (const void *)answer;
	*ret = false;
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__GroupControllerServiceCapability *c = said->capabilities[i];

		*ret |= c->type_case == CSI__V1__GROUP_CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC &&
			c->rpc->type == GROUP_SNAPSHOTS;
	}
	return 0;
}
