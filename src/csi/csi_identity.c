/* SPDX-License-Identifier: Apache-2.0 */

/* csi.v1.Identity */

#include "csi/service.h"

#include "base/err.h"
#include "csi_identity.pb-c.h"

static int get_plugin_info(struct csi_driver *driver, const void *request, struct cairn_buf *reply,
			   struct cairn_err *err)
{
	Csi__V1__GetPluginInfoResponse response;

	(void)request;
	csi__v1__get_plugin_info_response__init(&response);
	response.name = driver->name;
	response.vendor_version = driver->version;
	return csi_reply(reply, &response.base, err);
}

#define SERVICES_MAX 5

typedef Csi__V1__PluginCapability__Service__Type service_type;

#define IS(name) CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__##name

static size_t list_services(const struct csi_driver *driver, service_type out[SERVICES_MAX])
{
	size_t n = 0;

	out[n++] = IS(CONTROLLER_SERVICE);
	out[n++] = IS(GROUP_CONTROLLER_SERVICE);
	out[n++] = IS(SNAPSHOT_METADATA_SERVICE);
	if (driver->topology_key)
		out[n++] = IS(VOLUME_ACCESSIBILITY_CONSTRAINTS);
	if (driver->older & CSI_OLDER_DIFFERENTIAL)
		out[n++] = IS(DIFFERENTIAL_SNAPSHOT_SERVICE);
	return n;
}

static int get_plugin_capabilities(struct csi_driver *driver, const void *request,
				   struct cairn_buf *reply, struct cairn_err *err)
{
	service_type types[SERVICES_MAX];
	Csi__V1__GetPluginCapabilitiesResponse response;
	Csi__V1__PluginCapability__Service services[SERVICES_MAX];
	Csi__V1__PluginCapability__VolumeExpansion expansion;
	Csi__V1__PluginCapability capabilities[SERVICES_MAX + 1];
	Csi__V1__PluginCapability *list[SERVICES_MAX + 1];
	size_t n_services = list_services(driver, types);

	(void)request;
	csi__v1__get_plugin_capabilities_response__init(&response);
	for (size_t i = 0; i <= n_services; i++) {
		csi__v1__plugin_capability__init(&capabilities[i]);
		list[i] = &capabilities[i];
		if (i == n_services)
			break;
		csi__v1__plugin_capability__service__init(&services[i]);
		services[i].type = types[i];
		capabilities[i].type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE;
		capabilities[i].service = &services[i];
	}
	csi__v1__plugin_capability__volume_expansion__init(&expansion);
	expansion.type = CSI__V1__PLUGIN_CAPABILITY__VOLUME_EXPANSION__TYPE__ONLINE;
	capabilities[n_services].type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_VOLUME_EXPANSION;
	capabilities[n_services].volume_expansion = &expansion;
	response.capabilities = list;
	response.n_capabilities = n_services + 1;
	return csi_reply(reply, &response.base, err);
}

static int csi_identity_probe(struct csi_driver *driver, const void *request,
			      struct cairn_buf *reply, struct cairn_err *err)
{
	Csi__V1__ProbeResponse response;
	Google__Protobuf__BoolValue ready;

	(void)request;
	for (size_t i = 0; i < driver->n_pools; i++) {
		struct pool_volume volume;
		struct cairn_err why = {0};
		/* Any lookup that reads the catalogue will do. */
		int rc = pool_volume_get(driver->pools[i].pool, "-", &volume, &why);

		if (rc && rc != CAIRN_NOT_FOUND)
			return cairn_err_set(err, CAIRN_PRECONDITION, "pool '%s': %s",
					     driver->pools[i].name, why.msg);
	}
	csi__v1__probe_response__init(&response);
	google__protobuf__bool_value__init(&ready);
	ready.value = true;
	response.ready = &ready;
	return csi_reply(reply, &response.base, err);
}

const struct csi_unary csi_identity_methods[] = {
	{"/csi.v1.Identity/GetPluginInfo", &csi__v1__get_plugin_info_request__descriptor,
	 get_plugin_info},
	{"/csi.v1.Identity/GetPluginCapabilities",
	 &csi__v1__get_plugin_capabilities_request__descriptor, get_plugin_capabilities},
	{"/csi.v1.Identity/Probe", &csi__v1__probe_request__descriptor, csi_identity_probe},
};
const size_t csi_identity_n = sizeof(csi_identity_methods) / sizeof(csi_identity_methods[0]);
