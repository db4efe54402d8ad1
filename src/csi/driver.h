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
#define CSI_NODE_ID_MAX  256U /* bytes; of CSI */

/* Flavours of the changed-block API that came before SnapshotMetadata. Whoever
 * asks what a driver can may not know them, so each is off unless asked for. */
enum csi_older {
	CSI_OLDER_SESSIONS = 1 << 0,     /* SnapshotMetadata: GetAllocated, GetDelta */
	CSI_OLDER_DIFFERENTIAL = 1 << 1, /* DifferentialSnapshot */
	CSI_OLDER_DELTAS = 1 << 2,       /* Controller: ListSnapshotDeltas */
};

#define CSI_DELTA_BLOCK_DEFAULT 4096U
#define CSI_DELTA_BLOCK_MAX     (1U << 30)
#define CSI_TOKEN_TTL_DEFAULT_S 600U
#define CSI_TOKEN_TTL_MAX_S     (30U * 24U * 3600U)

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
	unsigned older;        /* of enum csi_older: what is served besides */
	uint64_t delta_block;  /* of ListSnapshotDeltas; 0: CSI_DELTA_BLOCK_DEFAULT */
	uint64_t token_ttl_s;  /* of data tokens; 0: CSI_TOKEN_TTL_DEFAULT_S */
};

/* Opens the pools.
 *
 * CAIRN_INVALID  a name or node id that CSI does not allow, no pool, two pools
 *                of one name or one pool twice, blocks of no whole sectors,
 *                tokens that live too long
 */
int csi_driver_new(const struct csi_options *options, struct csi_driver **ret,
		   struct cairn_err *err);
/* After the server that it serves was freed. */
void csi_driver_free(struct csi_driver *driver);
CAIRN_DEFINE_CLEANUP(struct csi_driver, csi_driver_free);

/* Adds the services: Identity, Controller, Node, GroupController and
 * SnapshotMetadata, and what of the older flavours was asked for. Before the server starts. */
int csi_driver_serve(struct csi_driver *driver, struct net_server *server, struct cairn_err *err);

#endif
