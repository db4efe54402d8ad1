/* SPDX-License-Identifier: Apache-2.0 */

/* The session flavour: a request of a caller, and a driver's message that is
 * translated. The first byte chooses. A message that the shipped flavour can read
 * must have the same blocks in the other one. */

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "proto/block_translate.h"
#include "proto/message.h"
#include "sidecar/session_request.h"
#include "snapshot_session.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void check_request(bool delta, const uint8_t *data, size_t size)
{
	struct sidecar_session_request request = {0};
	struct sidecar_session_handles handles = {.volume = "v", .base = "b", .target = "t"};
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(1U << 20);
	int rc = sidecar_session_request_read(delta, data, size, &request, NULL);

	must(rc == 0 || rc == CAIRN_INVALID || rc == CAIRN_NO_SPACE);
	if (rc == 0) {
		must(request.token[0] && request.target[0] && (!delta || request.base[0]));
		must(sidecar_session_request_pack(&request, &handles, &out, NULL) == 0);
		cairn_buf_reset(&out);
		rc = sidecar_session_request_translate(&request, &handles, &out, NULL);
		must(rc == 0 || rc == CAIRN_RANGE);
	}
	sidecar_session_request_done(&request);
}

static void check_same(const ProtobufCMessage *before, const ProtobufCMessage *after)
{
	const Csi__V1__GetMetadataDeltaResponse *a = (const void *)before;
	const GetDeltaResponse *b = (const void *)after;

	must((int)a->block_metadata_type == (int)b->block_metadata_type + 1);
	must((uint64_t)a->volume_capacity_bytes == b->volume_size_bytes);
	must(a->n_block_metadata == b->n_block_metadata);
	for (size_t i = 0; i < a->n_block_metadata; i++)
		must((uint64_t)a->block_metadata[i]->byte_offset ==
			     b->block_metadata[i]->byte_offset &&
		     (uint64_t)a->block_metadata[i]->size_bytes ==
			     b->block_metadata[i]->size_bytes);
}

static void check_message(const uint8_t *data, size_t size)
{
	proto_auto_message ProtobufCMessage *before = NULL;
	proto_auto_message ProtobufCMessage *after = NULL;
	uint8_t *out = malloc(size + 1);
	size_t n = 0;

	must(out != NULL);
	if (proto_block_translate(data, size, out, &n)) {
		must(n <= size);
		if (proto_unpack(&csi__v1__get_metadata_delta_response__descriptor, data, size,
				 &before, NULL) == 0) {
			must(proto_unpack(&get_delta_response__descriptor, out, n, &after, NULL) ==
			     0);
			check_same(before, after);
		}
	}
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 3 == 2)
		check_message(data + 1, size - 1);
	else
		check_request(data[0] % 3 == 1, data + 1, size - 1);
	return 0;
}
