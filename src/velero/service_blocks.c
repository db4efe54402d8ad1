/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/service_blocks.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "net/grpc/call.h"
#include "proto/message.h"
#include "velero/action.h"
#include "velero/group_snapshot.h"
#include "velero/service_actions.h"
#include "velero/service_message.h"
#include "velero/services.h"
#include "velero_blocks.pb-c.h"
#include "velero_shared.pb-c.h"

int velero_blocks_applies_to(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return velero_applies_to(call, VELERO_BLOCK, err);
}

static int blocks_check_call(void *arg)
{
	return net_call_check(arg);
}

static int blocks_reply(struct net_call *call, const json_t *members, struct cairn_err *err)
{
	size_t n = json_array_size(members);
	cairn_auto_free Generated__ResourceIdentifier *at = cairn_calloc(n + 1, sizeof(*at));
	cairn_auto_free Generated__ResourceIdentifier **list =
		cairn_calloc(n + 1, sizeof(Generated__ResourceIdentifier *));
	V1__RelatedItemsResponse response;
	size_t i;
	json_t *claim;

	if (!at || !list)
		return cairn_err_nomem(err, "the claims of a group");
	v1__related_items_response__init(&response);
	json_array_foreach(members, i, claim)
	{
		generated__resource_identifier__init(&at[i]);
		at[i].resource = proto_text(kube_persistentvolumeclaims.plural);
		at[i].namespace_ = proto_text(kube_namespace(claim));
		at[i].name = proto_text(kube_name(claim));
		list[i] = &at[i];
	}
	response.related_items = list;
	response.n_related_items = n;
	return velero_reply(call, &response.base, err);
}

/* *ret, the other claims of the group, belongs to the caller. */
static int blocks_find(struct net_call *call, struct velero_services *services, const json_t *claim,
		       const json_t *backup, json_t **ret, struct cairn_err *err)
{
	const struct kube_call how = {.check = blocks_check_call, .check_arg = call};
	struct kube_client *client;
	int rc = velero_world_client(services->world, &client, err);

	return rc ? rc : velero_group_others(client, claim, backup, &how, ret, err);
}

int velero_blocks_related(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	kube_auto_json json_t *claim = NULL;
	kube_auto_json json_t *backup = NULL;
	kube_auto_json json_t *members = NULL;
	const struct velero_action *action;
	const V1__RelatedItemsRequest *request;
	const char *key;
	int rc = velero_receive(call, &v1__related_items_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = velero_action_named(VELERO_BLOCK, request->plugin, &action, err);
	if (!rc)
		rc = velero_item_parse(&request->item, "the item", &claim, err);
	if (!rc)
		rc = velero_item_parse(&request->backup, "the Backup", &backup, err);
	if (!rc && velero_group_of(claim, backup, &key))
		rc = blocks_find(call, arg, claim, backup, &members, err);
	if (rc)
		return cairn_err_wrap(err, "%s", kube_name(claim));
	return blocks_reply(call, members, err);
}
