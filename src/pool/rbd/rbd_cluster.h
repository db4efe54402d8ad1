/* SPDX-License-Identifier: Apache-2.0 */

/* A connection to the Ceph pool and namespace of a Cairn pool, and this process's session
 * in it.
 *
 * Objects beside the images, all in the same namespace:
 *   cairn.pool            the pool's configuration (pool_config.h)
 *   cairn.catalogue       omap: records under "c", sessions under "s"
 *   cairn.locks           omap: a held lock's slot, and the session that holds it with a number;
 *                         and the session that was fenced last
 *   cairn.session.ID      watched by the process of the session
 *   cairn.set.NAME        change sets
 *
 * A process that locks or commits has a session: an entry in the catalogue and a watch on
 * an object of its own. A process that waits for a lock asks the holder through that watch; a
 * holder that does not answer is dead or as good as dead. It is then fenced, in this order:
 * its address is blocklisted, so that no storage daemon accepts anything from it; its entry
 * is removed, on which each of its commits depends; its locks are removed.
 *
 * Thread-safe.
 */
#ifndef CAIRN_POOL_RBD_CLUSTER_H
#define CAIRN_POOL_RBD_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/rbd/rbd_api.h"

struct cairn_err;

#define RBD_OBJECT_POOL      "cairn.pool"
#define RBD_OBJECT_CATALOGUE "cairn.catalogue"
#define RBD_OBJECT_LOCKS     "cairn.locks"
#define RBD_OBJECT_SESSION   "cairn.session."

/* The key beside the locks that names the session that was fenced last. */
#define RBD_LOCKS_FENCE "fence"

#define RBD_OBJECT_SET "cairn.set."

#define RBD_SESSION_ID_MAX  33U /* with the NUL */
#define RBD_SESSION_KEY_MAX (RBD_SESSION_ID_MAX + 1)

/* What makes an image a block device. */
/* The first is what an address without "device=" means. */
enum rbd_device {
	RBD_DEVICE_EXPORT,
	RBD_DEVICE_KRBD,
	RBD_DEVICE_NBD,
	RBD_DEVICE_AUTO,
};

struct rbd_address {
	char pool[128];
	char namespace[128];
	char user[128];  /* "": Ceph's default */
	char conf[1024]; /* "": Ceph's default */
	enum rbd_device device;
	bool patient; /* operations wait for storage daemons without end, as a disk does */
};

/* CAIRN_INVALID  not an address of rbd_site.h */
int rbd_address_parse(const char *text, struct rbd_address *ret, struct cairn_err *err);

/* "export", "krbd", "nbd", "auto" */
const char *rbd_device_name(enum rbd_device device);

struct rbd_cluster;

/* Connects; waits a bounded time for the monitors.
 *
 * CAIRN_NOT_FOUND    no such Ceph pool, or no configuration
 * CAIRN_DENIED       the user's key does not fit
 * CAIRN_UNAVAILABLE  no monitor answers
 */
int rbd_cluster_open(const struct rbd_address *address, struct rbd_cluster **ret,
		     struct cairn_err *err);
/* Ends the session, if there is one. */
void rbd_cluster_close(struct rbd_cluster *cluster);
CAIRN_DEFINE_CLEANUP(struct rbd_cluster, rbd_cluster_close);

/* Makes the namespace of the address, if it has one and it does not exist. */
int rbd_cluster_make_namespace(struct rbd_cluster *cluster, const struct rbd_address *address,
			       struct cairn_err *err);

const struct rbd_api *rbd_cluster_api(const struct rbd_cluster *cluster);
rados_ioctx_t rbd_cluster_io(const struct rbd_cluster *cluster);
rados_t rbd_cluster_rados(const struct rbd_cluster *cluster);

/* The session's id, which is begun if there is none.
 *
 * CAIRN_UNAVAILABLE  this process was fenced: it must be started again
 */
int rbd_cluster_session(struct rbd_cluster *cluster, const char **ret_id, struct cairn_err *err);

/* Renews the session's watch if it was lost; to be called every few seconds. */
void rbd_cluster_keep_session(struct rbd_cluster *cluster);

/* Makes a write to the catalogue's object depend on the session's entry. */
void rbd_cluster_depend_on_session(rados_write_op_t op, const struct rbd_cluster *cluster,
				   const char *id);

/* True in *ret if the process of a session answers. One of this host that has ended is seen
 * at once, one of another host is given a second. */
int rbd_cluster_is_alive(struct rbd_cluster *cluster, const char *id, bool *ret,
			 struct cairn_err *err);

/* Fences a session whose process did not answer, and removes its entry and locks. */
int rbd_cluster_fence(struct rbd_cluster *cluster, const char *id, struct cairn_err *err);

/* Fences the session of a client, given by its address, if its process is dead; true in
 * *ret then. A client without a session is not of this pool and is left alone. */
int rbd_cluster_fence_dead_client(struct rbd_cluster *cluster, const char *address, bool *ret,
				  struct cairn_err *err);

/* Calls `fn` for every session but this one's. */
int rbd_cluster_list_sessions(struct rbd_cluster *cluster,
			      int (*fn)(void *arg, const char *id, struct cairn_err *err),
			      void *arg, struct cairn_err *err);

#endif
