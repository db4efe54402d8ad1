/* SPDX-License-Identifier: Apache-2.0 */

/* The nodes on which a pod may use a claim that is made from a snapshot. Pure.
 *
 * Where the driver of each node has its own volumes, only the driver of the source's node can
 * make a volume from the snapshot. The scheduler does not know that. It chooses a node for a pod
 * whose claim waits for its first consumer, so the pod must name the nodes itself.
 */
#ifndef CAIRN_BACKUP_CLUSTER_AFFINITY_H
#define CAIRN_BACKUP_CLUSTER_AFFINITY_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;

/* All borrowed. */
struct cluster_origin {
	const json_t *volume;        /* PersistentVolume of the claim; NULL: gone */
	const json_t *content;       /* of the snapshot; NULL: it is cut from `volume` */
	const json_t *storage_class; /* of the claim made from the snapshot; NULL: unknown */
};

/* True if the PersistentVolume is accessible from some nodes only. */
bool backup_cluster_has_affinity(const json_t *volume);

/* *ret is the nodeAffinity of a pod, owned by the caller; NULL if the pod may run on any node.
 * It may share parts with the origin.
 *
 * It is that of the volume. If the snapshot was cut from another volume, which is gone, the
 * content's label names the node. A class that binds at once gets none: its claim has a volume
 * before the pod is scheduled, and the pod follows that volume. An unknown class counts as one
 * that waits.
 */
int backup_cluster_node_affinity(const struct cluster_origin *origin, json_t **ret,
				 struct cairn_err *err);

#endif
