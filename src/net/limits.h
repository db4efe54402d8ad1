/* SPDX-License-Identifier: Apache-2.0 */

/* Limits on the resources that a peer can use. Each comment says which attack
 * or accident the limit stops. A field left 0 takes its default, so `(struct
 * net_limits){0}` is a sound setting; times are milliseconds. */
#ifndef CAIRN_NET_LIMITS_H
#define CAIRN_NET_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct net_limits {
	uint32_t connections;      /* open at once; net/shares.h tells which one a further one
	                               displaces. Descriptor exhaustion by idle ones. 1024 */
	uint32_t connections_each; /* of one peer address (IPv6: /64). One address locking the
	                               others out. A quarter of the above */
	uint32_t strangers;        /* connections whose peer has not proven who it is. Memory of
	                               those that never will. 1024, at most the above */
	uint32_t strangers_each;   /* of one peer address. A quarter of the above */
	uint32_t handshakes_burst; /* TLS handshakes of one peer address at once; more are closed
	                               on accept. Private key operations. 512 */
	uint32_t handshakes_per_second; /* and how fast that refills. 64 */
	size_t request_bytes;      /* calls that are not over and their fields, of the server; more
	                               are refused. Strangers get three quarters. Fields named by
	                               HPACK index: 3 MiB sent, 1.3 GiB kept. 32 MiB */
	size_t request_bytes_each; /* of one peer address. 8 MiB */
	size_t request_bytes_connection; /* of one connection. 4 MiB */
	size_t stranger_header_bytes;    /* fields, as header_bytes counts them, of all calls of a
	                               connection whose peer has not proven who it is, within 16 s; over it
	                               ENHANCE_YOUR_CALM. Processor time: 110 bytes make us decode
	                               60 KiB. 1 MiB */
	uint32_t control_frames; /* that wait to be sent on a connection, beside two for each
	                               stream; over it ENHANCE_YOUR_CALM. A peer that makes us
	                               answer and never reads. 128 */
	uint32_t streams;        /* at once on a connection. One peer taking all workers. 1024 */
	uint32_t workers;        /* handler threads; more calls wait in a queue. 1024 */
	uint32_t queued_calls;   /* calls that wait for a worker, over all connections; more are
	                               refused with RESOURCE_EXHAUSTED. 16384 */
	uint32_t header_bytes;   /* of one request's fields, names and values and 32 each, as
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
	uint64_t stranger_idle_ms;  /* the same for a peer that has not proven who it is. 2 min */
	uint64_t stall_ms;          /* a peer that takes none of what waits for it; its call is
	                               reset. Zero window held for ever. 10 min */
	uint64_t keepalive_ms;      /* silence after which we ping the peer. Dead peers. 2 min */
	uint64_t keepalive_wait_ms; /* for the answer to that ping. 20 s */
	uint32_t ping_burst;        /* pings taken at once from a peer; over it ENHANCE_YOUR_CALM.
	                               Ping flood. 20 */
	uint64_t ping_refill_ms;    /* one more ping is taken after so long. 5 s */
	uint32_t settings_burst;    /* SETTINGS, PRIORITY and empty DATA frames, and TLS key updates
	                               likewise; one more every 100 ms. A stranger's count eightfold.
	                               Settings flood. 500 */
	uint32_t reset_burst;       /* RST_STREAM frames likewise, and those that the peer makes us
	                               send, of which a stranger's count eightfold. Rapid reset,
	                               MadeYouReset. 1000 */
	uint32_t reset_per_second;  /* and how fast that refills. 100 */
};

/* The limits with every 0 replaced by its default. */
struct net_limits net_limits_defaulted(const struct net_limits *limits);

#endif
