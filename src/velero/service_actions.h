/* SPDX-License-Identifier: Apache-2.0 */

/* Methods of Velero's services; `arg` is a struct velero_services. */
#ifndef CAIRN_VELERO_SERVICE_ACTIONS_H
#define CAIRN_VELERO_SERVICE_ACTIONS_H

struct cairn_err;
struct net_call;

int velero_list_plugins(struct net_call *call, void *arg, struct cairn_err *err);
int velero_backup_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_backup_execute(struct net_call *call, void *arg, struct cairn_err *err);
int velero_restore_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_restore_execute(struct net_call *call, void *arg, struct cairn_err *err);
int velero_delete_applies_to(struct net_call *call, void *arg, struct cairn_err *err);
int velero_delete_execute(struct net_call *call, void *arg, struct cairn_err *err);

#endif
