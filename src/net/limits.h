/* SPDX-License-Identifier: Apache-2.0 */

/* What a peer may cost us. Each limit says which attack or accident it stops.
 * A field left 0 takes its default, so `(struct net_limits){0}` is a sound
 * setting; times are milliseconds. */
#ifndef CAIRN_NET_LIMITS_H
#define CAIRN_NET_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct net_limits {
	uint32_t connections;   /* open at once; more are closed on accept. Descriptor
	                               exhaustion by idle connections. 1024 */
	uint32_t streams;       /* at once on a connection. One peer taking all workers. 1024 */
	uint32_t workers;       /* handler threads; more calls wait in a queue. 1024 */
	uint32_t queued_calls;  /* calls that wait for a worker, over all connections; more are
	                               refused with RESOURCE_EXHAUSTED. 16384 */
	uint32_t header_bytes;  /* of one request's fields, names and values and 32 each, as
	                               HTTP/2 counts. Header bomb, HPACK bomb. 64 KiB */
	uint32_t continuations; /* CONTINUATION frames of one header block. CONTINUATION flood. 8 */
	size_t message_bytes;   /* of one received message, also after decompression. Oversized
	                               message, gzip bomb. 4 MiB */
	size_t stream_recv_bytes;   /* received and not yet taken by the handler; flow control
	                               stops the peer there. 1 MiB */
	size_t stream_send_bytes;   /* written by the handler and not yet taken by the peer; the
	                               handler blocks there. 256 KiB */
	size_t buffered_bytes;      /* of all streams of the server, both directions; above it send
	                               buffers shrink to 64 KiB and calls whose peers send on are
	                               refused with RESOURCE_EXHAUSTED. 256 MiB */
	uint32_t stream_window;     /* HTTP/2 window of a stream. 1 MiB */
	uint32_t connection_window; /* HTTP/2 window of a connection. 4 MiB */
	uint64_t handshake_ms;      /* from accept to the peer's SETTINGS. Slow handshake. 10 s */
	uint64_t header_ms;         /* from the first byte of a header block to its last. Slow
	                               headers. 10 s */
	uint64_t request_ms;        /* from the headers to the end of the one request message of a
	                               unary or server-streaming call. Slow body. 60 s */
	uint64_t idle_ms;           /* a connection without calls; it gets GOAWAY. Idle
	                               connections. 30 min */
	uint64_t stall_ms;          /* a peer that takes none of what waits for it; its call is
	                               reset. Zero window held for ever. 10 min */
	uint64_t keepalive_ms;      /* silence after which we ping the peer. Dead peers. 2 min */
	uint64_t keepalive_wait_ms; /* for the answer to that ping. 20 s */
	uint32_t ping_burst;        /* pings taken at once from a peer; over it ENHANCE_YOUR_CALM.
	                               Ping flood. 20 */
	uint64_t ping_refill_ms;    /* one more ping is taken after so long. 5 s */
	uint32_t settings_burst;    /* SETTINGS, PRIORITY and empty DATA frames likewise; one more
	                               every 100 ms. Settings flood. 500 */
	uint32_t reset_burst;       /* RST_STREAM frames likewise. Rapid reset. 1000 */
	uint32_t reset_per_second;  /* and how fast that refills. 100 */
};

/* The limits with every 0 replaced by its default. */
struct net_limits net_limits_defaulted(const struct net_limits *limits);

#endif
