/* SPDX-License-Identifier: Apache-2.0 */

/* Answers of a CSI driver's Identity service. */
#ifndef CAIRN_TESTS_UNIT_CSI_ANSWERS_H
#define CAIRN_TESTS_UNIT_CSI_ANSWERS_H

#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "csi_identity.pb-c.h"
#include "net/grpc/call.h"
#include "proto/message.h"

static inline int csi_answer(struct net_call *call, const ProtobufCMessage *message,
			     struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(4096);

	proto_pack(message, &buf);
	return net_call_send(call, buf.data, buf.len, err);
}

static inline int csi_answer_name(struct net_call *call, const char *name, struct cairn_err *err)
{
	Csi__V1__GetPluginInfoResponse response;

	csi__v1__get_plugin_info_response__init(&response);
	response.name = (char *)(uintptr_t)name;
	return csi_answer(call, &response.base, err);
}

/* A driver with this service only. */
static inline int csi_answer_capability(struct net_call *call,
					Csi__V1__PluginCapability__Service__Type type,
					struct cairn_err *err)
{
	Csi__V1__GetPluginCapabilitiesResponse response;
	Csi__V1__PluginCapability capability, *list = &capability;
	Csi__V1__PluginCapability__Service service;

	csi__v1__get_plugin_capabilities_response__init(&response);
	csi__v1__plugin_capability__init(&capability);
	csi__v1__plugin_capability__service__init(&service);
	service.type = type;
	capability.type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE;
	capability.service = &service;
	response.n_capabilities = 1;
	response.capabilities = &list;
	return csi_answer(call, &response.base, err);
}

#endif
