/* SPDX-License-Identifier: Apache-2.0 */

/* Methods of Velero's VolumeSnapshotter; `arg` is a struct velero_services. */
#ifndef CAIRN_VELERO_SERVICE_SNAPSHOTTER_H
#define CAIRN_VELERO_SERVICE_SNAPSHOTTER_H

struct cairn_err;
struct net_call;

int velero_serve_init(struct net_call *call, void *arg, struct cairn_err *err);
int velero_serve_volume_id(struct net_call *call, void *arg, struct cairn_err *err);
int velero_serve_volume_info(struct net_call *call, void *arg, struct cairn_err *err);
int velero_serve_create_snapshot(struct net_call *call, void *arg, struct cairn_err *err);
int velero_serve_create_volume(struct net_call *call, void *arg, struct cairn_err *err);
int velero_serve_set_volume_id(struct net_call *call, void *arg, struct cairn_err *err);
int velero_serve_delete_snapshot(struct net_call *call, void *arg, struct cairn_err *err);

#endif
