/* SPDX-License-Identifier: Apache-2.0 */

/* csi.v1.Node: the table of methods and the capabilities. */

#include "csi/node.h"

#include "csi/reply.h"
#include "csi_node.pb-c.h"

typedef Csi__V1__NodeServiceCapability__RPC__Type capability_type;

#define CAN(name) CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##name

static const capability_type capabilities[] = {
	CAN(STAGE_UNSTAGE_VOLUME), CAN(GET_VOLUME_STATS),         CAN(EXPAND_VOLUME),
	CAN(VOLUME_CONDITION),     CAN(SINGLE_NODE_MULTI_WRITER),
};

#define N_CAPABILITIES (sizeof(capabilities) / sizeof(capabilities[0]))

static CSI_METHOD(get_capabilities)
{
	Csi__V1__NodeGetCapabilitiesResponse response;
	Csi__V1__NodeServiceCapability items[N_CAPABILITIES];
	Csi__V1__NodeServiceCapability__RPC rpcs[N_CAPABILITIES];
	Csi__V1__NodeServiceCapability *list[N_CAPABILITIES];

	(void)driver;
	(void)request;
	csi__v1__node_get_capabilities_response__init(&response);
	for (size_t i = 0; i < N_CAPABILITIES; i++) {
		csi__v1__node_service_capability__rpc__init(&rpcs[i]);
		csi__v1__node_service_capability__init(&items[i]);
		rpcs[i].type = capabilities[i];
		items[i].type_case = CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC;
		items[i].rpc = &rpcs[i];
		list[i] = &items[i];
	}
	response.capabilities = list;
	response.n_capabilities = N_CAPABILITIES;
	return csi_reply(reply, &response.base, err);
}

static CSI_METHOD(get_info)
{
	Csi__V1__NodeGetInfoResponse response;
	Csi__V1__Topology topology;
	Csi__V1__Topology__SegmentsEntry segment;
	Csi__V1__Topology__SegmentsEntry *segments[1];

	(void)request;
	csi__v1__node_get_info_response__init(&response);
	response.node_id = driver->node_id;
	response.max_volumes_per_node = (int64_t)driver->volumes_max;
	if (driver->topology_key) {
		csi_topology_fill(driver, &topology, &segment, segments);
		response.accessible_topology = &topology;
	}
	return csi_reply(reply, &response.base, err);
}

#define METHOD(name, request, run)                                                   \
	{                                                                            \
		"/csi.v1.Node/" name, &csi__v1__##request##_request__descriptor, run \
	}

const struct csi_unary csi_node_methods[] = {
	METHOD("NodeGetCapabilities", node_get_capabilities, get_capabilities),
	METHOD("NodeGetInfo", node_get_info, get_info),
	METHOD("NodeStageVolume", node_stage_volume, csi_node_stage),
	METHOD("NodeUnstageVolume", node_unstage_volume, csi_node_unstage),
	METHOD("NodePublishVolume", node_publish_volume, csi_node_publish),
	METHOD("NodeUnpublishVolume", node_unpublish_volume, csi_node_unpublish),
	METHOD("NodeGetVolumeStats", node_get_volume_stats, csi_node_stats),
	METHOD("NodeExpandVolume", node_expand_volume, csi_node_expand),
};
const size_t csi_node_n = sizeof(csi_node_methods) / sizeof(csi_node_methods[0]);
