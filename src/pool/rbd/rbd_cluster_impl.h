/* SPDX-License-Identifier: Apache-2.0 */

/* The members of a connection, for the files that implement rbd_cluster.h. */
#ifndef CAIRN_POOL_RBD_CLUSTER_IMPL_H
#define CAIRN_POOL_RBD_CLUSTER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_process.h"

/* The value of a session's entry: the client's address, a space, and the mark of its
 * process. */
#define RBD_SESSION_VALUE_MAX (256U + RBD_PROCESS_MARK_MAX)

struct rbd_cluster {
	const struct rbd_api *api;
	rados_t rados;
	rados_ioctx_t io;

	pthread_mutex_t mutex; /* guards what follows */
	char id[RBD_SESSION_ID_MAX];
	bool has_session;
	uint64_t watch;
	atomic_bool fenced;
	atomic_bool watch_lost; /* and not renewed yet */
};

/* Ends this process's session, if it has one. */
void rbd_session_end(struct rbd_cluster *cluster);

/* Where a session is kept: the key beside the catalogue, and the object that is watched. */
void rbd_session_key(const char *id, char key[RBD_SESSION_KEY_MAX]);
void rbd_session_object(const char *id, char object[64]);
int rbd_session_remove(struct rbd_cluster *cluster, const char *id, struct cairn_err *err);

/* Removes some sessions whose processes have ended, if there are many. A failure leaves them
 * to the next process. */
void rbd_session_sweep(struct rbd_cluster *cluster);

#endif
