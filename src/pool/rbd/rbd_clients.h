/* SPDX-License-Identifier: Apache-2.0 */

/* Clients that have an image open for writing: such a client watches the image, wherever it
 * runs. */
#ifndef CAIRN_POOL_RBD_CLIENTS_H
#define CAIRN_POOL_RBD_CLIENTS_H

#define RBD_CLIENT_MAX 128U

struct cairn_err;
struct rbd_cluster;

/* The address of one client, or "" if no client has the image open. */
int rbd_clients_find(struct rbd_cluster *cluster, const char *volume_id,
		     char client[RBD_CLIENT_MAX], struct cairn_err *err);

/* Waits a moment for those that only look.
 *
 * CAIRN_PRECONDITION  a client keeps it open
 */
int rbd_clients_await_none(struct rbd_cluster *cluster, const char *id, struct cairn_err *err);

#endif
