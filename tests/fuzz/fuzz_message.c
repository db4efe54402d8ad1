/* SPDX-License-Identifier: Apache-2.0 */

/* Control messages: the first byte chooses the type. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "csi_controller.pb-c.h"
#include "csi_group.pb-c.h"
#include "csi_identity.pb-c.h"
#include "csi_metadata.pb-c.h"
#include "csi_node.pb-c.h"
#include "grpc_reflection.pb-c.h"
#include "proto/message.h"
#include "snapshotmetadata.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const ProtobufCMessageDescriptor *const types[] = {
		&csi__v1__create_volume_request__descriptor,
		&csi__v1__get_metadata_delta_request__descriptor,
		&csi__v1__node_publish_volume_request__descriptor,
		&csi__v1__create_volume_group_snapshot_request__descriptor,
		&csi__v1__get_plugin_capabilities_response__descriptor,
		&snapshotmetadata__get_metadata_allocated_request__descriptor,
		&grpc__reflection__v1__server_reflection_request__descriptor,
		&csi__v1__validate_volume_capabilities_request__descriptor,
	};
	cairn_auto_buf struct cairn_buf once = CAIRN_BUF_INIT(1 << 24);
	cairn_auto_buf struct cairn_buf twice = CAIRN_BUF_INIT(1 << 24);
	proto_auto_message ProtobufCMessage *first = NULL;
	proto_auto_message ProtobufCMessage *second = NULL;
	const ProtobufCMessageDescriptor *type;

	if (size == 0)
		return 0;
	type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
	if (proto_unpack(type, data + 1, size - 1, &first, NULL) < 0)
		return 0;
	/* What was read and written reads back and writes the same. */
	proto_pack(first, &once);
	if (cairn_buf_failed(&once))
		return 0;
	if (proto_unpack(type, once.data, once.len, &second, NULL) < 0)
		abort();
	proto_pack(second, &twice);
	if (once.len != twice.len || (once.len && memcmp(once.data, twice.data, once.len) != 0))
		abort();
	return 0;
}
