/* SPDX-License-Identifier: Apache-2.0 */

/* The CSI services over one or several pools.
 *
 * A driver is made from its options, adds its methods to a gRPC server and then answers on
 * that server's worker threads. A restart loses no state: volumes, snapshots and their
 * Kubernetes attributes are stored in the pools, and attachments and mounts are read from
 * the kernel.
 *
 * The StorageClass parameter "pool" selects one of several pools; ids are unique over all
 * of them.
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

/* Flavours of the changed-block API that preceded SnapshotMetadata. A caller that lists
 * the driver's capabilities may not know them, so each is off by default. */
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
	const char *name; /* value of the parameter "pool"; the first one is the default */
	const char *dir;
};

struct csi_options {
	const char *name; /* of the driver; NULL: CSI_NAME_DEFAULT */
	const char *version;
	const char *node_id;
	const struct csi_pool_spec *pools;
	size_t n_pools;
	bool topology;         /* report that a volume is reachable only from this node */
	bool node_expansion;   /* NodeExpandVolume grows volumes, not the controller service */
	uint64_t fixed_length; /* 0: variable; else the size of every block reported */
	uint64_t volumes_max;  /* limit of volumes published to one node; 0: no limit */
	unsigned older;        /* of enum csi_older: additional services */
	uint64_t delta_block;  /* of ListSnapshotDeltas; 0: CSI_DELTA_BLOCK_DEFAULT */
	uint64_t compare_max;  /* of snapshots that are read and compared; 0: none */
	uint64_t token_ttl_s;  /* of data tokens; 0: CSI_TOKEN_TTL_DEFAULT_S */
};

/* Opens the pools.
 *
 * CAIRN_INVALID  invalid name or node id, no pool, two pools
 *                with one name or one pool twice, blocks that are not whole sectors,
 *                token lifetime too long
 */
int csi_driver_new(const struct csi_options *options, struct csi_driver **ret,
		   struct cairn_err *err);
/* Call it after the server was freed. */
void csi_driver_free(struct csi_driver *driver);
CAIRN_DEFINE_CLEANUP(struct csi_driver, csi_driver_free);

/* Adds the services Identity, Controller, Node, GroupController and SnapshotMetadata, and
 * the selected older flavours. Call it before the server starts. */
int csi_driver_serve(struct csi_driver *driver, struct net_server *server, struct cairn_err *err);

/* True if a pool's storage has stopped and works again with a new driver
 * (pool_wants_reopening()). */
bool csi_driver_wants_reopening(const struct csi_driver *driver);

#endif
