/* SPDX-License-Identifier: Apache-2.0 */

/* The CSI services over one or several pools.
 *
 * A driver is made from its options, adds its methods to a gRPC server and then
 * answers on that server's worker threads. It keeps nothing in memory that a
 * restart would lose: volumes, snapshots and what Kubernetes said of them are in
 * the pools, what is attached and mounted is asked of the kernel.
 *
 * Several pools are told apart by the StorageClass parameter "pool"; ids are
 * unique over all of them.
 */
#ifndef CAIRN_CSI_DRIVER_H
#define CAIRN_CSI_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct csi_driver;
struct net_server;

#define CSI_NAME_DEFAULT "cairn.csi.dev"
#define CSI_POOLS_MAX    64U

struct csi_pool_spec {
	const char *name; /* what the parameter "pool" says; the first one is the default */
	const char *dir;
};

struct csi_options {
	const char *name; /* of the driver; NULL: CSI_NAME_DEFAULT */
	const char *version;
	const char *node_id;
	const struct csi_pool_spec *pools;
	size_t n_pools;
	bool topology;         /* a volume is reachable from this node only, and says so */
	uint64_t fixed_length; /* 0: variable; else the size of every block reported */
	uint64_t volumes_max;  /* published to one node; 0: no limit */
};

/* Opens the pools.
 *
 * CAIRN_INVALID  a name that CSI does not allow, no node id, no pool, two pools
 *                of one name, blocks of no whole sectors
 */
int csi_driver_new(const struct csi_options *options, struct csi_driver **ret,
		   struct cairn_err *err);
/* After the server that it serves was freed. */
void csi_driver_free(struct csi_driver *driver);
CAIRN_DEFINE_CLEANUP(struct csi_driver, csi_driver_free);

/* Adds the services: Identity, Controller, Node, GroupController and
 * SnapshotMetadata. Before the server starts. */
int csi_driver_serve(struct csi_driver *driver, struct net_server *server, struct cairn_err *err);

#endif
