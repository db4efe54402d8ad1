/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/services.h"

#include <stdint.h>

#include "base/err.h"
#include "go_plugin.pb-c.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_server.h"
#include "velero/service_actions.h"
#include "velero/service_blocks.h"
#include "velero/service_message.h"
#include "velero/service_snapshotter.h"

#define VS "/generated.VolumeSnapshotter/"

/* Stays open as long as Velero runs: its end means that the connection has ended. */
static int stream_stdio(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct velero_services *services = arg;
	int rc = net_call_send_headers(call, err);

	while (!rc)
		rc = net_call_sleep(call, UINT64_MAX, err);
	services->ended(services->arg);
	return rc;
}

/* Velero opens this stream and sends nothing. */
static int broker_stream(struct net_call *call, void *arg, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc = net_call_send_headers(call, err);

	(void)arg;
	while (rc >= 0 && (rc = net_call_recv(call, &data, &n, err)) > 0)
		;
	return rc;
}

static int shutdown_plugin(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct velero_services *services = arg;
	Plugin__Empty response;
	int rc;

	plugin__empty__init(&response);
	rc = velero_reply(call, &response.base, err);
	services->ended(services->arg);
	return rc;
}

int velero_services_add(struct velero_services *services, struct net_server *server,
			struct cairn_err *err)
{
	/* clang-format off: one a line */
	struct net_method methods[] = {
		{.path = "/plugin.GRPCStdio/StreamStdio",
		 .kind = NET_SERVER_STREAM,
		 .handler = stream_stdio},
		{.path = "/plugin.GRPCBroker/StartStream",
		 .kind = NET_BIDI,
		 .handler = broker_stream},
		{.path = "/plugin.GRPCController/Shutdown", .handler = shutdown_plugin},
		{.path = "/generated.PluginLister/ListPlugins", .handler = velero_list_plugins},
		{.path = "/v2.BackupItemAction/AppliesTo", .handler = velero_backup_applies_to},
		{.path = "/v2.BackupItemAction/Execute", .handler = velero_backup_execute},
		{.path = "/v2.RestoreItemAction/AppliesTo", .handler = velero_restore_applies_to},
		{.path = "/v2.RestoreItemAction/Execute", .handler = velero_restore_execute},
		{.path = "/generated.DeleteItemAction/AppliesTo",
		 .handler = velero_delete_applies_to},
		{.path = "/generated.DeleteItemAction/Execute", .handler = velero_delete_execute},
		{.path = "/v1.ItemBlockAction/AppliesTo", .handler = velero_blocks_applies_to},
		{.path = "/v1.ItemBlockAction/GetRelatedItems", .handler = velero_blocks_related},
		{.path = VS "Init", .handler = velero_serve_init},
		{.path = VS "GetVolumeID", .handler = velero_serve_volume_id},
		{.path = VS "GetVolumeInfo", .handler = velero_serve_volume_info},
		{.path = VS "CreateSnapshot", .handler = velero_serve_create_snapshot},
		{.path = VS "CreateVolumeFromSnapshot", .handler = velero_serve_create_volume},
		{.path = VS "SetVolumeID", .handler = velero_serve_set_volume_id},
		{.path = VS "DeleteSnapshot", .handler = velero_serve_delete_snapshot},
	};
	/* clang-format on */
	size_t n = sizeof(methods) / sizeof(methods[0]);
	int rc;

	for (size_t i = 0; i < n; i++) {
		methods[i].arg = services;
		methods[i].request_max = VELERO_REQUEST_MAX;
	}
	rc = net_server_add(server, methods, n, err);
	/* The name that go-plugin's host asks the health service for. */
	return rc ? rc : net_server_set_serving(server, "plugin", true, err);
}
