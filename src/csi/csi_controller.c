/* SPDX-License-Identifier: Apache-2.0 */

/* csi.v1.Controller: the table of methods and the capabilities. */

#include "csi/csi_controller.h"

#include "csi_controller.pb-c.h"

typedef Csi__V1__ControllerServiceCapability__RPC__Type capability_type;

#define CAN(name) CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##name

static const capability_type capabilities[] = {
	CAN(CREATE_DELETE_VOLUME),
	CAN(PUBLISH_UNPUBLISH_VOLUME),
	CAN(LIST_VOLUMES),
	CAN(GET_CAPACITY),
	CAN(CREATE_DELETE_SNAPSHOT),
	CAN(LIST_SNAPSHOTS),
	CAN(CLONE_VOLUME),
	CAN(PUBLISH_READONLY),
	CAN(LIST_VOLUMES_PUBLISHED_NODES),
	CAN(VOLUME_CONDITION),
	CAN(GET_VOLUME),
	CAN(SINGLE_NODE_MULTI_WRITER),
	CAN(MODIFY_VOLUME),
	CAN(GET_SNAPSHOT),
	/* Only if they are enabled: */
	CAN(EXPAND_VOLUME),
	CAN(LIST_BLOCK_SNAPSHOT_DELTAS),
};

#define N_CAPABILITIES (sizeof(capabilities) / sizeof(capabilities[0]))

static bool controller_can(const struct csi_driver *driver, capability_type type)
{
	if (type == CAN(EXPAND_VOLUME))
		return !driver->node_expansion;
	if (type == CAN(LIST_BLOCK_SNAPSHOT_DELTAS))
		return driver->older & CSI_OLDER_DELTAS;
	return true;
}

static CSI_METHOD(get_capabilities)
{
	Csi__V1__ControllerGetCapabilitiesResponse response;
	Csi__V1__ControllerServiceCapability items[N_CAPABILITIES];
	Csi__V1__ControllerServiceCapability__RPC rpcs[N_CAPABILITIES];
	Csi__V1__ControllerServiceCapability *list[N_CAPABILITIES];
	size_t n = 0;

	(void)request;
	csi__v1__controller_get_capabilities_response__init(&response);
	for (size_t i = 0; i < N_CAPABILITIES; i++) {
		if (!controller_can(driver, capabilities[i]))
			continue;
		csi__v1__controller_service_capability__rpc__init(&rpcs[n]);
		csi__v1__controller_service_capability__init(&items[n]);
		rpcs[n].type = capabilities[i];
		items[n].type_case = CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
		items[n].rpc = &rpcs[n];
		list[n] = &items[n];
		n++;
	}
	response.capabilities = list;
	response.n_capabilities = n;
	return csi_reply(reply, &response.base, err);
}

#define METHOD(name, request, run)                                                         \
	{                                                                                  \
		"/csi.v1.Controller/" name, &csi__v1__##request##_request__descriptor, run \
	}

const struct csi_unary csi_controller_methods[] = {
	METHOD("ControllerGetCapabilities", controller_get_capabilities, get_capabilities),
	METHOD("CreateVolume", create_volume, csi_create_volume),
	METHOD("DeleteVolume", delete_volume, csi_delete_volume),
	METHOD("ControllerPublishVolume", controller_publish_volume, csi_publish_volume),
	METHOD("ControllerUnpublishVolume", controller_unpublish_volume, csi_unpublish_volume),
	METHOD("ValidateVolumeCapabilities", validate_volume_capabilities,
	       csi_validate_capabilities),
	METHOD("ListVolumes", list_volumes, csi_list_volumes),
	METHOD("GetCapacity", get_capacity, csi_get_capacity),
	METHOD("CreateSnapshot", create_snapshot, csi_create_snapshot),
	METHOD("DeleteSnapshot", delete_snapshot, csi_delete_snapshot),
	METHOD("ListSnapshots", list_snapshots, csi_list_snapshots),
	METHOD("GetSnapshot", get_snapshot, csi_get_snapshot),
	METHOD("ControllerExpandVolume", controller_expand_volume, csi_expand_volume),
	METHOD("ControllerGetVolume", controller_get_volume, csi_get_volume),
	METHOD("ControllerModifyVolume", controller_modify_volume, csi_modify_volume),
};
const size_t csi_controller_n = sizeof(csi_controller_methods) / sizeof(csi_controller_methods[0]);
