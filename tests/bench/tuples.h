/* SPDX-License-Identifier: Apache-2.0 */

/* The tuples that the servers of the gRPC benchmarks send. */
#ifndef CAIRN_BENCH_TUPLES_H
#define CAIRN_BENCH_TUPLES_H

#include <stddef.h>
#include <stdint.h>

#include "net/grpc/call.h"
#include "proto/block_metadata.h"

struct bench_tuples {
	uint64_t count, per_message;
	uint64_t stride, length; /* of bytes of the volume */
};

static inline int bench_send_tuples(struct net_call *call, const struct bench_tuples *t,
				    struct cairn_err *err)
{
	const uint64_t capacity = t->count * t->stride;
	uint64_t done = 0;

	while (done < t->count) {
		size_t n = t->count - done < t->per_message ? t->count - done : t->per_message;
		struct proto_block_writer w;
		uint8_t *at;
		int rc = net_call_reserve(call, PROTO_BLOCK_ROOM(n), &at, err);

		if (rc != 0)
			return rc;
		proto_block_begin(&w, at, PROTO_BLOCK_ROOM(n), PROTO_BLOCK_VARIABLE, capacity);
		for (size_t i = 0; i < n; i++, done++)
			proto_block_add(&w, done * t->stride, t->length);
		net_call_commit(call, proto_block_len(&w), done < t->count);
	}
	return 0;
}

#endif
