/* SPDX-License-Identifier: Apache-2.0 */

/* Images of a pool on Ceph as block devices of this host, and who else uses them
 * (device/attacher.h).
 *
 * A device is a loop device over a file that a process of ours exports (rbd_export.h), in
 * /run/cairn/rbd/POOL/ID, or with "device=" in the pool's address one of krbd or rbd-nbd
 * (rbd_mapping.h).
 */
#ifndef CAIRN_POOL_RBD_ATTACHER_H
#define CAIRN_POOL_RBD_ATTACHER_H

struct attacher;
struct cairn_err;
struct locks;
struct rbd_cluster;

struct rbd_attacher_spec {
	struct rbd_cluster *cluster; /* borrowed */
	struct locks *locks;         /* borrowed */
	const char *address;         /* as another process has to be given it */
	const char *pool_id;         /* as long as the attacher is used */
};

int rbd_attacher_open(const struct rbd_attacher_spec *spec, struct attacher **ret,
		      struct cairn_err *err);

#endif
