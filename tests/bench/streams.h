/* SPDX-License-Identifier: Apache-2.0 */

/* Many streams at once, each on a connection of its own: what clients that read slowly hold. */
#ifndef CAIRN_BENCH_STREAMS_H
#define CAIRN_BENCH_STREAMS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "net/grpc/grpc_client.h"
#include "net/tls/tls_settings.h"

struct bench_streams {
	struct net_channel **channels;
	struct net_rpc **rpcs;
	uint64_t n;
	struct net_tls *tls; /* of all of them; NULL until the first made it */
};

static inline bool bench_streams_init(struct bench_streams *s, uint64_t n)
{
	*s = (struct bench_streams){.n = n};
	s->channels = cairn_calloc(n, sizeof(struct net_channel *));
	s->rpcs = cairn_calloc(n, sizeof(struct net_rpc *));
	return s->channels && s->rpcs;
}

static inline void bench_streams_done(struct bench_streams *s)
{
	for (uint64_t i = 0; i < s->n; i++) {
		net_rpc_free(s->rpcs[i]);
		net_channel_free(s->channels[i]);
	}
	free(s->channels);
	free(s->rpcs);
	net_tls_free(s->tls);
}

#endif
