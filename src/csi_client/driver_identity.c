/* SPDX-License-Identifier: Apache-2.0 */

#include "csi_client/driver_identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi_identity.pb-c.h"
#include "net/grpc/unary.h"
#include "proto/message.h"

int csi_client_ask(const struct csi_client *client, const char *path,
		   const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret,
		   struct cairn_err *err)
{
	Csi__V1__GetPluginInfoRequest empty;

	if (client->call)
		return client->call(client->arg, path, type, ret, err);
	/* An empty message has the same encoding in every type: no bytes. */
	csi__v1__get_plugin_info_request__init(&empty);
	return net_unary(client->channel, path, client->timeout_ms, &empty.base, type, ret, err);
}

int csi_client_name(const struct csi_client *client, char **ret_name, char **ret_version,
		    struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	cairn_auto_free char *name = NULL;
	cairn_auto_free char *version = NULL;
	const Csi__V1__GetPluginInfoResponse *info;
	int rc = csi_client_ask(client, "/csi.v1.Identity/GetPluginInfo",
				&csi__v1__get_plugin_info_response__descriptor, &answer, err);

	if (rc)
		return rc;
	info = (const void *)answer;
	if (!info->name[0] || strlen(info->name) > CSI_CLIENT_NAME_MAX)
		return cairn_err_set(err, CAIRN_INTERNAL, "the CSI driver has no name");
	name = cairn_strdup(info->name);
	version = cairn_strdup(info->vendor_version);
	if (!name || !version)
		return cairn_err_nomem(err, "driver");
	*ret_name = cairn_take(name);
	if (ret_version)
		*ret_version = cairn_take(version);
	return 0;
}

int csi_client_services(const struct csi_client *client, struct csi_client_services *ret,
			struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	const Csi__V1__GetPluginCapabilitiesResponse *said;
	int rc = csi_client_ask(client, "/csi.v1.Identity/GetPluginCapabilities",
				&csi__v1__get_plugin_capabilities_response__descriptor, &answer,
				err);

	if (rc)
		return rc;
	said = (const void *)answer;
	*ret = (struct csi_client_services){0};
	for (size_t i = 0; i < said->n_capabilities; i++) {
		const Csi__V1__PluginCapability *c = said->capabilities[i];

		if (c->type_case != CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE)
			continue;
#define HAS(what) (c->service->type == CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__##what)
		ret->snapshot_metadata |= HAS(SNAPSHOT_METADATA_SERVICE);
		ret->differential_snapshot |= HAS(DIFFERENTIAL_SNAPSHOT_SERVICE);
		ret->group_controller |= HAS(GROUP_CONTROLLER_SERVICE);
		ret->topology |= HAS(VOLUME_ACCESSIBILITY_CONSTRAINTS);
#undef HAS
	}
	return 0;
}
