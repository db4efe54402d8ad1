/* SPDX-License-Identifier: Apache-2.0 */

/* Change sets as RADOS objects "cairn.set.NAME" (store/blob.h). */
#ifndef CAIRN_POOL_RBD_BLOBS_H
#define CAIRN_POOL_RBD_BLOBS_H

struct blobs;
struct cairn_err;
struct rbd_cluster;

/* The cluster is borrowed. */
int rbd_blobs_open(struct rbd_cluster *cluster, struct blobs **ret, struct cairn_err *err);

#endif
