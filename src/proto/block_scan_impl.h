/* SPDX-License-Identifier: Apache-2.0 */

/* Shared by the scan of block metadata (block_scan.c) and its fast loops
 * (block_scan_fast.c). */
#ifndef CAIRN_PROTO_BLOCK_SCAN_IMPL_H
#define CAIRN_PROTO_BLOCK_SCAN_IMPL_H

#include <stdint.h>

#include "block/extent.h"
#include "proto/block_metadata.h"

enum {
	PROTO_BLOCK_FIELD_TYPE = 1,
	PROTO_BLOCK_FIELD_CAPACITY = 2,
	PROTO_BLOCK_FIELD_TUPLE = 3,
	PROTO_BLOCK_TUPLE_OFFSET = 1,
	PROTO_BLOCK_TUPLE_LENGTH = 2,
};

/* Type and capacity of one message. */
struct proto_block_head {
	uint64_t type;
	uint64_t capacity;
	uint64_t tuples;
	uint64_t last_offset;
};

/* Decodes and checks tuples of the usual form while they are valid. Stops at anything else
 * and near the end of the message, and leaves the remaining bytes in `in`. The stream must
 * have had a tuple before. Returns 0 or the return value of the sink. */
int proto_block_scan_fast(struct proto_block_scan *scan, struct proto_block_head *head,
			  struct proto_in *in, const struct block_sink *sink,
			  struct cairn_err *err);

static inline int proto_block_emit(const struct block_sink *sink, uint64_t offset, uint64_t length,
				   struct cairn_err *err)
{
	struct block_extent extent = {.offset = offset, .length = length};

	return sink->emit(sink->arg, &extent, err);
}

#endif
