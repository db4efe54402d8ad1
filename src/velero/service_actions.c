/* SPDX-License-Identifier: Apache-2.0 */

/* PluginLister, BackupItemAction, RestoreItemAction and DeleteItemAction. */

#include "velero/service_actions.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "net/grpc/call.h"
#include "proto/message.h"
#include "velero/action.h"
#include "velero/service_message.h"
#include "velero/services.h"
#include "velero/velero_names.h"
#include "velero_actions.pb-c.h"
#include "velero_shared.pb-c.h"

static const char *const kind_names[] = {
	[VELERO_BACKUP] = "BackupItemActionV2",
	[VELERO_RESTORE] = "RestoreItemActionV2",
	[VELERO_DELETE] = "DeleteItemAction",
	[VELERO_BLOCK] = "ItemBlockAction",
};

int velero_list_plugins(struct net_call *call, void *arg, struct cairn_err *err)
{
	const struct velero_services *services = arg;
	size_t n = velero_actions_n + 1; /* and the volume snapshotter */
	cairn_auto_free Generated__PluginIdentifier *plugins = cairn_calloc(n, sizeof(*plugins));
	cairn_auto_free Generated__PluginIdentifier **list =
		cairn_calloc(n, sizeof(Generated__PluginIdentifier *));
	Generated__ListPluginsResponse response;

	if (!plugins || !list)
		return cairn_err_nomem(err, "the list of plugins");
	for (size_t i = 0; i < n; i++) {
		generated__plugin_identifier__init(&plugins[i]);
		plugins[i].command = proto_text(services->program);
		plugins[i].kind =
			proto_text(i < velero_actions_n ? kind_names[velero_actions[i].kind]
							: "VolumeSnapshotter");
		plugins[i].name = proto_text(i < velero_actions_n ? velero_actions[i].name
								  : VELERO_SNAPSHOTTER);
		list[i] = &plugins[i];
	}
	generated__list_plugins_response__init(&response);
	response.n_plugins = n;
	response.plugins = list;
	return velero_reply(call, &response.base, err);
}

int velero_action_named(enum velero_kind kind, const char *name, const struct velero_action **ret,
			struct cairn_err *err)
{
	*ret = velero_action_find(kind, name);
	return *ret ? 0
		    : cairn_err_set(err, CAIRN_NOT_FOUND, "%s '%.*s' is not in this plugin",
				    kind_names[kind], VELERO_NAME_MAX, name);
}

int velero_applies_to(struct net_call *call, enum velero_kind kind, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	Generated__AppliesToResponse response;
	Generated__ResourceSelector selector;
	const struct velero_action *action;
	char *resource;
	int rc = velero_receive(call, &generated__applies_to_request__descriptor, &message, err);

	if (!rc)
		rc = velero_action_named(
			kind, ((const Generated__AppliesToRequest *)(const void *)message)->plugin,
			&action, err);
	if (rc)
		return rc;
	generated__applies_to_response__init(&response);
	generated__resource_selector__init(&selector);
	resource = proto_text(action->resource);
	selector.included_resources = &resource;
	selector.n_included_resources = 1;
	selector.selector = proto_text(action->selector);
	response.resource_selector = &selector;
	return velero_reply(call, &response.base, err);
}

int velero_backup_applies_to(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return velero_applies_to(call, VELERO_BACKUP, err);
}

int velero_restore_applies_to(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return velero_applies_to(call, VELERO_RESTORE, err);
}

int velero_delete_applies_to(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return velero_applies_to(call, VELERO_DELETE, err);
}

int velero_item_parse(const ProtobufCBinaryData *bytes, const char *what, json_t **ret,
		      struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = kube_json_parse((const char *)bytes->data, bytes->len, &object, err);

	if (rc)
		return cairn_err_wrap(err, "%s", what);
	if (!json_is_object(object) || !*kube_name(object))
		return cairn_err_set(err, CAIRN_INVALID, "%s is not an object of Kubernetes", what);
	*ret = cairn_take(object);
	return 0;
}

/* One run of an action: the parsed request and its result. */
struct run {
	struct velero_request request;
	struct velero_outcome outcome;
	json_t *original;
	json_t *owner;
	char *changed; /* text of the changed item; NULL: unchanged */
	size_t changed_n;
};

static void run_done(struct run *run)
{
	json_decref(run->request.item);
	json_decref(run->original);
	json_decref(run->owner);
	free(run->changed);
}

static int check_call(void *arg)
{
	return net_call_check(arg);
}

/* `original` is NULL except for restores. */
static int service_actions_execute(struct run *run, struct net_call *call,
				   const struct velero_services *services,
				   const struct velero_action *action,
				   const ProtobufCBinaryData *item,
				   const ProtobufCBinaryData *owner,
				   const ProtobufCBinaryData *original, struct cairn_err *err)
{
	int rc = velero_item_parse(item, "the item", &run->request.item, err);

	if (!rc)
		rc = velero_item_parse(
			owner, action->kind == VELERO_RESTORE ? "the Restore" : "the Backup",
			&run->owner, err);
	if (!rc && original)
		rc = velero_item_parse(original, "the item of the backup", &run->original, err);
	if (rc)
		return rc;
	run->request.world = services->world;
	run->request.owner = run->owner;
	run->request.original = run->original;
	run->request.how = (struct kube_call){.check = check_call, .check_arg = call};
	rc = action->execute(&run->request, &run->outcome, err);
	if (rc || !run->outcome.changed)
		return rc ? cairn_err_wrap(err, "%s: %s", action->name,
					   kube_name(run->request.item))
			  : 0;
	run->changed = kube_json_text(run->request.item, &run->changed_n);
	return run->changed ? 0 : cairn_err_nomem(err, "the item");
}

/* Related items as messages. The strings belong to the run, which must outlive them. */
struct identifiers {
	Generated__ResourceIdentifier at[VELERO_RELATED_MAX];
	Generated__ResourceIdentifier *list[VELERO_RELATED_MAX];
};

static void service_actions_identify(const struct velero_outcome *outcome, struct identifiers *ret)
{
	for (size_t i = 0; i < outcome->n_related; i++) {
		const struct velero_related *related = &outcome->related[i];

		generated__resource_identifier__init(&ret->at[i]);
		ret->at[i].group = proto_text(related->resource->group);
		ret->at[i].resource = proto_text(related->resource->plural);
		ret->at[i].namespace_ = proto_text(related->ns);
		ret->at[i].name = proto_text(related->name);
		ret->list[i] = &ret->at[i];
	}
}

static ProtobufCBinaryData item_of(const struct run *run, const ProtobufCBinaryData *as_it_came)
{
	if (!run->changed)
		return *as_it_came;
	return (ProtobufCBinaryData){.data = (uint8_t *)run->changed, .len = run->changed_n};
}

int velero_backup_execute(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_cleanup(run_done) struct run run = {0};
	struct identifiers identifiers;
	const struct velero_action *action;
	const V2__BackupExecuteRequest *request;
	V2__BackupExecuteResponse response;
	int rc = velero_receive(call, &v2__backup_execute_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = velero_action_named(VELERO_BACKUP, request->plugin, &action, err);
	if (!rc)
		rc = service_actions_execute(&run, call, arg, action, &request->item,
					     &request->backup, NULL, err);
	if (rc)
		return rc;
	v2__backup_execute_response__init(&response);
	response.item = item_of(&run, &request->item);
	service_actions_identify(&run.outcome, &identifiers);
	response.additional_items = identifiers.list;
	response.n_additional_items = run.outcome.n_related;
	return velero_reply(call, &response.base, err);
}

int velero_restore_execute(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_cleanup(run_done) struct run run = {0};
	struct identifiers identifiers;
	const struct velero_action *action;
	const V2__RestoreExecuteRequest *request;
	V2__RestoreExecuteResponse response;
	int rc = velero_receive(call, &v2__restore_execute_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = velero_action_named(VELERO_RESTORE, request->plugin, &action, err);
	if (!rc)
		rc = service_actions_execute(&run, call, arg, action, &request->item,
					     &request->restore, &request->item_from_backup, err);
	if (rc)
		return rc;
	v2__restore_execute_response__init(&response);
	response.item = item_of(&run, &request->item);
	response.skip_restore = run.outcome.skip;
	service_actions_identify(&run.outcome, &identifiers);
	response.additional_items = identifiers.list;
	response.n_additional_items = run.outcome.n_related;
	return velero_reply(call, &response.base, err);
}

int velero_delete_execute(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_cleanup(run_done) struct run run = {0};
	const struct velero_action *action;
	const Generated__DeleteExecuteRequest *request;
	Generated__Empty response;
	int rc =
		velero_receive(call, &generated__delete_execute_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = velero_action_named(VELERO_DELETE, request->plugin, &action, err);
	if (!rc)
		rc = service_actions_execute(&run, call, arg, action, &request->item,
					     &request->backup, NULL, err);
	if (rc)
		return rc;
	generated__empty__init(&response);
	return velero_reply(call, &response.base, err);
}
