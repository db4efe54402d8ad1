/* SPDX-License-Identifier: Apache-2.0 */

/* The exclusive lock of an image, which one client has at a time. */
#ifndef CAIRN_POOL_RBD_IMAGE_LOCK_H
#define CAIRN_POOL_RBD_IMAGE_LOCK_H

struct cairn_err;
struct rbd_cluster;
struct rbd_image_handle;

/* Takes the lock of an image that is open for writing, and keeps it until the image is
 * closed: other clients cannot write. One that a dead process holds is broken, after its
 * holder was fenced, which takes less than two seconds instead of the 30 that Ceph waits.
 *
 * CAIRN_PRECONDITION  another client keeps it
 */
int rbd_image_lock(struct rbd_cluster *cluster, struct rbd_image_handle *handle,
		   struct cairn_err *err);

/* Breaks the lock if a dead process of the pool holds it, so that the next operation that
 * needs it does not wait. */
int rbd_image_break_dead(struct rbd_cluster *cluster, struct rbd_image_handle *handle,
			 struct cairn_err *err);

#endif
