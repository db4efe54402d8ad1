/* SPDX-License-Identifier: Apache-2.0 */

/* Queries the capabilities of the driver under test. */

#include "conformance/driver_target.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi_client/capabilities.h"
#include "csi_client/driver_identity.h"
#include "csi_node.pb-c.h"
#include "proto/message.h"

static int learn_ask(void *arg, const char *path, const ProtobufCMessageDescriptor *type,
		     ProtobufCMessage **ret, struct cairn_err *err)
{
	struct cairn_buf empty = CAIRN_BUF_INIT(REQUEST_MAX);

	return conformance_target_unary(arg, path, &empty, type, ret, err);
}

static int learn_plugin(struct target *t, const struct csi_client *client, struct cairn_err *err)
{
	struct csi_client_services services;
	struct csi_client_controller controller;
	int rc = csi_client_name(client, &t->name, &t->version, err);

	if (!rc)
		rc = csi_client_services(client, &services, err);
	if (!rc)
		rc = csi_client_controller(client, &controller, err);
	if (rc)
		return rc;
	t->has_metadata = services.snapshot_metadata;
	t->has_topology = services.topology;
	t->can_attach = controller.attach;
	t->can_expand = controller.expand;
	t->can_list_snapshots = controller.list_snapshots;
	t->can_get_snapshot = controller.get_snapshot;
	return services.group_controller ? csi_client_groups(client, &t->can_group, err) : 0;
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
		rc = conformance_request_map_add(&t->segments, topology->segments[i]->key,
						 topology->segments[i]->value, err);
	return rc;
}

static int learn_node(struct target *t, const struct csi_client *client, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *info = NULL;
	struct csi_client_node node;
	int rc = csi_client_node(client, &node, err);

	if (!rc)
		rc = learn_ask(t, "/csi.v1.Node/NodeGetInfo",
			       &csi__v1__node_get_info_response__descriptor, &info, err);
	if (rc)
		return rc;
	t->must_stage = node.stage;
	t->can_expand_node = node.expand;
	return learn_info(t, (const void *)info, err);
}

int conformance_target_learn(struct target *t, struct cairn_err *err)
{
	const struct csi_client client = {.call = learn_ask, .arg = t};
	int rc = learn_plugin(t, &client, err);

	return rc ? rc : learn_node(t, &client, err);
}
