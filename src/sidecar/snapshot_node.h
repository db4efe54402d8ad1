/* SPDX-License-Identifier: Apache-2.0 */

/* The node whose driver has a snapshot.
 *
 * csi-snapshotter's label on the VolumeSnapshotContent says it where drivers are deployed
 * on each node. Without the label (a content that was made by hand, or an older
 * controller), the node affinity of the volume of the snapshot's claim says it, if that
 * allows exactly one value, which is then the name of the node.
 */
#ifndef CAIRN_SIDECAR_SNAPSHOT_NODE_H
#define CAIRN_SIDECAR_SNAPSHOT_NODE_H

#include <jansson.h>

struct cairn_err;
struct kube_snapshot;
struct kube_wait;
struct sidecar_kube;

/* *ret is owned by the caller; NULL if the snapshot belongs to no single node. A claim or
 * volume that no longer exists is such a case; a failed read is an error.
 *
 * CAIRN_UNAVAILABLE, CAIRN_INTERNAL  as sidecar_resolve_find()
 */
int sidecar_snapshot_node(const struct sidecar_kube *kube, const char *ns,
			  const struct kube_snapshot *snapshot, const struct kube_wait *wait,
			  char **ret, struct cairn_err *err);

/* The only value that the node affinity of a volume allows; NULL: several, or any. */
const char *sidecar_volume_node(const json_t *volume);

#endif
