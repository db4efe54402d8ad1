/* SPDX-License-Identifier: Apache-2.0 */

/* Methods of Velero's services; `arg` is a struct velero_services. */
#ifndef CAIRN_VELERO_SERVICE_ACTIONS_H
#define CAIRN_VELERO_SERVICE_ACTIONS_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "velero/action.h"

struct cairn_err;
struct net_call;

int velero_list_plugins(struct net_call *call, void *arg, struct cairn_err *err);
int velero_backup_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_backup_execute(struct net_call *call, void *arg, struct cairn_err *err);
int velero_restore_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_restore_execute(struct net_call *call, void *arg, struct cairn_err *err);
int velero_delete_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_delete_execute(struct net_call *call, void *arg, struct cairn_err *err);

/* --- shared with the other services --- */

/* Answers which items the action is for. */
int velero_applies_to(struct net_call *call, enum velero_kind kind, struct cairn_err *err);

/* CAIRN_NOT_FOUND  there is none of that kind and name; the message is for Velero's log */
int velero_action_named(enum velero_kind kind, const char *name, const struct velero_action **ret,
			struct cairn_err *err);

/* Parses an item or its owner: an object with a name. `what` is for messages. */
int velero_item_parse(const ProtobufCBinaryData *bytes, const char *what, json_t **ret,
		      struct cairn_err *err);

#endif
