/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and snapshots as images of a Ceph pool (store/store.h). Names: rbd_image.h. */
#ifndef CAIRN_POOL_RBD_STORE_H
#define CAIRN_POOL_RBD_STORE_H

#include <stdbool.h>

struct cairn_err;
struct rbd_cluster;
struct store;

/* The cluster is borrowed. */
int rbd_store_open(struct rbd_cluster *cluster, bool writable, struct store **ret,
		   struct cairn_err *err);

#endif
