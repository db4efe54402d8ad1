/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/registration.h"

#include <stdatomic.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "csi/service.h"
#include "kubelet_registration.pb-c.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_server.h"
#include "proto/message.h"

#define SOCKET_MODE 0600
#define REPLY_MAX   4096
#define PLUGIN_TYPE "CSIPlugin"
#define CSI_VERSION "1.0.0" /* what the kubelet calls all of CSI v1 */

struct csi_registration {
	struct net_server *server;
	char *name;
	char *endpoint;
	char *socket;
	atomic_bool refused;
};

static int registration_send_message(struct net_call *call, const ProtobufCMessage *message,
				     struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf reply = CAIRN_BUF_INIT(REPLY_MAX);
	int rc = csi_reply(&reply, message, err);

	return rc ? rc : net_call_send(call, reply.data, reply.len, err);
}

static int get_info(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct csi_registration *registration = arg;
	char *versions[] = {proto_text(CSI_VERSION)};
	Pluginregistration__PluginInfo info;

	pluginregistration__plugin_info__init(&info);
	info.type = proto_text(PLUGIN_TYPE);
	info.name = registration->name;
	info.endpoint = registration->endpoint;
	info.supported_versions = versions;
	info.n_supported_versions = 1;
	return registration_send_message(call, &info.base, err);
}

static int registration_notify(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct csi_registration *registration = arg;
	proto_auto_message ProtobufCMessage *message = NULL;
	Pluginregistration__RegistrationStatusResponse response;
	int rc = csi_request_recv(call, &pluginregistration__registration_status__descriptor,
				  &message, err);

	if (rc)
		return rc;
	const Pluginregistration__RegistrationStatus *status = (const void *)message;

	atomic_store(&registration->refused, !status->plugin_registered);
	if (status->plugin_registered)
		cairn_log(CAIRN_LOG_INFO, "registered with the kubelet",
			  CAIRN_STR("driver", registration->name));
	else
		cairn_log(CAIRN_LOG_ERROR, "the kubelet refuses the driver",
			  CAIRN_STR("driver", registration->name),
			  CAIRN_STR("reason", status->error));
	pluginregistration__registration_status_response__init(&response);
	return registration_send_message(call, &response.base, err);
}

static int registration_start(struct csi_registration *registration, struct cairn_err *err)
{
	const struct net_method methods[] = {
		{.path = "/pluginregistration.Registration/GetInfo",
		 .kind = NET_UNARY,
		 .handler = get_info,
		 .arg = registration},
		{.path = "/pluginregistration.Registration/NotifyRegistrationStatus",
		 .kind = NET_UNARY,
		 .handler = registration_notify,
		 .arg = registration},
	};
	struct net_server_options options = {.name = "kubelet"};
	int rc = net_server_new(&options, &registration->server, err);

	if (!rc)
		rc = net_server_add(registration->server, methods, 2, err);
	if (!rc)
		rc = net_server_listen_unix(registration->server, registration->socket, SOCKET_MODE,
					    err);
	return rc ? rc : net_server_start(registration->server, err);
}

int csi_registration_new(const struct csi_registration_options *options,
			 struct csi_registration **ret, struct cairn_err *err)
{
	cairn_cleanup(csi_registration_freep) struct csi_registration *registration =
		cairn_calloc(1, sizeof(*registration));
	int rc;

	if (!registration)
		return cairn_err_nomem(err, "registration");
	registration->name = cairn_strdup(options->name);
	registration->endpoint = cairn_strdup(options->endpoint);
	registration->socket = cairn_printf("%s/%s-reg.sock", options->directory, options->name);
	if (!registration->name || !registration->endpoint || !registration->socket)
		return cairn_err_nomem(err, "registration");
	rc = registration_start(registration, err);
	if (rc)
		return cairn_err_wrap(err, "register with the kubelet");
	*ret = cairn_take(registration);
	return 0;
}

void csi_registration_free(struct csi_registration *registration)
{
	net_server_freep(&registration->server);
	free(registration->socket);
	free(registration->endpoint);
	free(registration->name);
	free(registration);
}

bool csi_registration_is_good(const struct csi_registration *registration)
{
	return !atomic_load(&registration->refused);
}
