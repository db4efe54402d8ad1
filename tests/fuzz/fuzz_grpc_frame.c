/* SPDX-License-Identifier: Apache-2.0 */

/* gRPC message framing, and gzip inside it. The first byte chooses how the rest
 * is cut into pieces; however it is cut, the same messages must come out. */

#include <stdlib.h>
#include <string.h>

#include "net/grpc/grpc_frame.h"
#include "net/grpc/gunzip.h"
#include "net/stream.h"

#define LIMIT 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	uint64_t sum; /* of everything that happened, in order */
	enum grpc_event last;
	bool idle;
};

static void mix(struct outcome *o, uint64_t value)
{
	o->sum = (o->sum ^ value) * 1099511628211ULL;
}

static struct outcome run(const uint8_t *data, size_t n, size_t step)
{
	struct outcome o = {.sum = 1};
	struct grpc_deframer d;

	grpc_deframer_init(&d, LIMIT);
	for (size_t i = 0; i < n; i += step) {
		const uint8_t *piece = data + i, *body;
		size_t left = n - i < step ? n - i : step, part;

		while ((o.last = grpc_deframe(&d, &piece, &left, &body, &part)) != GRPC_MORE) {
			if (o.last == GRPC_BEGIN)
				mix(&o, d.length << 1 | d.compressed);
			for (size_t k = 0; o.last == GRPC_BODY && k < part; k++)
				mix(&o, body[k]);
			if (o.last == GRPC_BEGIN && d.length > LIMIT)
				abort();
			if (o.last == GRPC_BAD_FLAG || o.last == GRPC_TOO_LARGE)
				return o;
		}
	}
	o.idle = grpc_deframer_idle(&d);
	return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct net_msg *msg = NULL;
	struct outcome whole, cut;

	if (size == 0)
		return 0;
	whole = run(data + 1, size - 1, size);
	cut = run(data + 1, size - 1, data[0] % 17 + 1);
	if (whole.sum != cut.sum || whole.last != cut.last || whole.idle != cut.idle)
		abort();
	if (net_gunzip(data + 1, size - 1, LIMIT, &msg, NULL) == 0 && msg->len > LIMIT)
		abort();
	free(msg);
	return 0;
}
