/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/reply.h"

#include <string.h>

#include "base/clock.h"
#include "pool/catalogue/ids.h"
#include "proto/message.h"

bool csi_topology_is_here(const struct csi_driver *driver, const Csi__V1__Topology *place)
{
	for (size_t i = 0; i < place->n_segments; i++)
		if (strcmp(place->segments[i]->key, driver->topology_key) == 0 &&
		    strcmp(place->segments[i]->value, driver->node_id) == 0)
			return true;
	return false;
}

void csi_timestamp_fill(Google__Protobuf__Timestamp *out, uint64_t ns)
{
	google__protobuf__timestamp__init(out);
	out->seconds = (int64_t)(ns / CAIRN_NS_PER_SEC);
	out->nanos = (int32_t)(ns % CAIRN_NS_PER_SEC);
}

void csi_topology_fill(const struct csi_driver *driver, Csi__V1__Topology *topology,
		       Csi__V1__Topology__SegmentsEntry *segment,
		       Csi__V1__Topology__SegmentsEntry **segments)
{
	csi__v1__topology__init(topology);
	csi__v1__topology__segments_entry__init(segment);
	segment->key = driver->topology_key;
	segment->value = driver->node_id;
	segments[0] = segment;
	topology->segments = segments;
	topology->n_segments = 1;
}

static void fill_source(struct csi_volume_bundle *bundle)
{
	uint64_t bits;

	csi__v1__volume_content_source__init(&bundle->source);
	if (pool_ids_parse_volume(bundle->attributes.source, &bits)) {
		csi__v1__volume_content_source__volume_source__init(&bundle->volume_source);
		bundle->volume_source.volume_id = bundle->attributes.source;
		bundle->source.type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME;
		bundle->source.volume = &bundle->volume_source;
	} else {
		csi__v1__volume_content_source__snapshot_source__init(&bundle->snapshot_source);
		bundle->snapshot_source.snapshot_id = bundle->attributes.source;
		bundle->source.type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT;
		bundle->source.snapshot = &bundle->snapshot_source;
	}
	bundle->message.content_source = &bundle->source;
}

void csi_volume_bundle_fill(const struct csi_driver *driver, struct csi_volume_bundle *bundle)
{
	Csi__V1__Volume *message = &bundle->message;

	csi__v1__volume__init(message);
	message->capacity_bytes = (int64_t)bundle->volume.size;
	message->volume_id = bundle->volume.id;
	if (bundle->attributes.source[0])
		fill_source(bundle);
	if (driver->topology_key) {
		csi_topology_fill(driver, &bundle->topology, &bundle->segment, bundle->segments);
		bundle->topologies[0] = &bundle->topology;
		message->accessible_topology = bundle->topologies;
		message->n_accessible_topology = 1;
	}
}

void csi_snapshot_bundle_fill(struct csi_snapshot_bundle *bundle)
{
	Csi__V1__Snapshot *message = &bundle->message;

	csi__v1__snapshot__init(message);
	csi_timestamp_fill(&bundle->created, bundle->snapshot.created_ns);
	message->size_bytes = (int64_t)bundle->snapshot.size;
	message->snapshot_id = bundle->snapshot.id;
	message->source_volume_id = bundle->snapshot.volume_id;
	message->creation_time = &bundle->created;
	message->ready_to_use = true;
	message->group_snapshot_id = bundle->group;
}

void csi_condition_fill(Csi__V1__VolumeCondition *out, const struct pool_condition *known)
{
	csi__v1__volume_condition__init(out);
	out->abnormal = known->abnormal;
	out->message = proto_text(known->abnormal ? known->reason
						  : "the volume's data and records are there");
}
