/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and snapshots as CSI messages.
 *
 * The objects of one reply contain pointers to each other and to strings, so each is built
 * in a bundle that holds all its parts and must not move until the reply is packed. */
#ifndef CAIRN_CSI_REPLY_H
#define CAIRN_CSI_REPLY_H

#include "csi/attributes.h"
#include "csi/service.h"
#include "csi_types.pb-c.h"

struct csi_volume_bundle {
	Csi__V1__Volume message;
	Csi__V1__VolumeContentSource source;
	Csi__V1__VolumeContentSource__SnapshotSource snapshot_source;
	Csi__V1__VolumeContentSource__VolumeSource volume_source;
	Csi__V1__Topology topology;
	Csi__V1__Topology__SegmentsEntry segment;
	Csi__V1__Topology *topologies[1];
	Csi__V1__Topology__SegmentsEntry *segments[1];
	struct pool_volume volume;
	struct csi_attributes attributes;
};

struct csi_snapshot_bundle {
	Csi__V1__Snapshot message;
	Google__Protobuf__Timestamp created;
	struct pool_snapshot snapshot;
	char group[POOL_ID_MAX + 1];
};

/* Fill the message from `volume` and `attributes`, or `snapshot` and `group`. */
void csi_volume_bundle_fill(const struct csi_driver *driver, struct csi_volume_bundle *bundle);
void csi_snapshot_bundle_fill(struct csi_snapshot_bundle *bundle);

/* The topology of this node alone, in a bundle's fields. */
void csi_topology_fill(const struct csi_driver *driver, Csi__V1__Topology *topology,
		       Csi__V1__Topology__SegmentsEntry *segment,
		       Csi__V1__Topology__SegmentsEntry **segments);

/* True if the topology segment is this node. */
bool csi_topology_is_here(const struct csi_driver *driver, const Csi__V1__Topology *place);

/* `known` must remain valid until the reply is packed. */
void csi_condition_fill(Csi__V1__VolumeCondition *out, const struct pool_condition *known);

void csi_timestamp_fill(Google__Protobuf__Timestamp *out, uint64_t ns);

#endif
