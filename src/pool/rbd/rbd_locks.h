/* SPDX-License-Identifier: Apache-2.0 */

/* Locks of a pool on Ceph (pool/locks.h): entries in the omap of "cairn.locks", each with
 * the session that holds it.
 *
 * The descriptor that holds a lock is one end of a pipe. A thread sees when it is closed
 * and removes the entry. A lock that stays taken makes the waiter ask its holder; one that
 * does not answer is fenced (rbd_cluster.h).
 */
#ifndef CAIRN_POOL_RBD_LOCKS_H
#define CAIRN_POOL_RBD_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct locks;
struct rbd_cluster;

/* The cluster is borrowed. Closing releases all locks, whether or not their descriptors are
 * closed. */
int rbd_locks_open(struct rbd_cluster *cluster, struct locks **ret, struct cairn_err *err);

/* Whether a living process holds the lock of a slot. */
int rbd_locks_is_held(struct rbd_cluster *cluster, uint64_t slot, bool *ret, struct cairn_err *err);

#endif
