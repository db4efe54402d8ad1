/* SPDX-License-Identifier: Apache-2.0 */

/* Limits on the resources that a peer can use. Each comment says which attack or
 * accident the limit stops, and ends with the default. A field left 0 takes its
 * default, so `(struct net_limits){0}` is a sound setting; times are milliseconds. */
#ifndef CAIRN_NET_LIMITS_H
#define CAIRN_NET_LIMITS_H

#include <stddef.h>
#include <stdint.h>

struct net_limits {
	/* Connections open at the same time. The next one displaces the one that
	 * net/shares.h chooses. Stops idle peers from using up descriptors. 1024 */
	uint32_t connections;
	/* The same, of one peer address (IPv6: /64). Stops one address from locking out the
	 * others. A quarter of the above */
	uint32_t connections_each;
	/* Connections whose peer has not authenticated. Stops peers that never will from
	 * using up memory. 1024, at most `connections` */
	uint32_t strangers;
	/* The same, of one peer address. A quarter of the above */
	uint32_t strangers_each;
	/* TLS handshakes that one peer address may begin at once; further connections are
	 * closed on accept. Bounds the private key operations. 512 */
	uint32_t handshakes_burst;
	/* Handshakes that are added to the burst each second. 64 */
	uint32_t handshakes_per_second;
	/* Memory of the server's unfinished calls and their fields; further calls are
	 * refused. Unauthenticated peers get three quarters. Stops fields that are named by
	 * HPACK index: 3 MiB sent expand to 1.3 GiB. 32 MiB */
	size_t request_bytes;
	/* The same, of one peer address. 8 MiB */
	size_t request_bytes_each;
	/* The same, of one connection. 4 MiB */
	size_t request_bytes_connection;
	/* Fields, as header_bytes counts them, of all calls of an unauthenticated connection
	 * within 16 s; above it ENHANCE_YOUR_CALM. Bounds processor time: 110 bytes make us
	 * decode 60 KiB. 1 MiB */
	size_t stranger_header_bytes;
	/* Control frames that wait to be sent on a connection, in addition to two for each
	 * stream; above it ENHANCE_YOUR_CALM. Stops a peer that causes replies and never
	 * reads them. 128 */
	uint32_t control_frames;
	/* Open streams of a connection. Stops one peer from taking all workers. 1024 */
	uint32_t streams;
	/* Handler threads; more calls wait in a queue. 1024 */
	uint32_t workers;
	/* Calls that wait for a worker, over all connections; more are refused with
	 * RESOURCE_EXHAUSTED. 16384 */
	uint32_t queued_calls;
	/* Fields of one request: names, values and 32 bytes for each, as HTTP/2 counts them.
	 * Header bomb, HPACK bomb. 64 KiB */
	uint32_t header_bytes;
	/* CONTINUATION frames of one header block. CONTINUATION flood. 8 */
	uint32_t continuations;
	/* One received message, before and after decompression. Oversized message, gzip
	 * bomb. 4 MiB */
	size_t message_bytes;
	/* Received, but not yet taken by the handler; flow control then stops the peer. 1 MiB */
	size_t stream_recv_bytes;
	/* Written by the handler, but not yet taken by the peer; the handler then blocks.
	 * 256 KiB */
	size_t stream_send_bytes;
	/* Buffers of all streams of the server, in both directions; above it send buffers
	 * shrink to 64 KiB, and calls whose peers keep sending are refused with
	 * RESOURCE_EXHAUSTED. 256 MiB */
	size_t buffered_bytes;
	/* HTTP/2 window of a stream. 1 MiB */
	uint32_t stream_window;
	/* HTTP/2 window of a connection. 4 MiB */
	uint32_t connection_window;
	/* Time from accept to the peer's SETTINGS. Slow handshake. 10 s */
	uint64_t handshake_ms;
	/* Time from the first byte of a header block to its last. Slow headers. 10 s */
	uint64_t header_ms;
	/* Time from the headers to the end of the one request message of a unary or
	 * server-streaming call. Slow body. 60 s */
	uint64_t request_ms;
	/* How long a connection may have no calls before it gets GOAWAY. Idle connections.
	 * 30 min */
	uint64_t idle_ms;
	/* The same for an unauthenticated peer. 2 min */
	uint64_t stranger_idle_ms;
	/* How long a peer may take none of the data that waits for it before its call is
	 * reset. Zero window held for ever. 10 min */
	uint64_t stall_ms;
	/* Silence after which we ping the peer. Dead peers. 2 min */
	uint64_t keepalive_ms;
	/* How long we wait for the answer to that ping. 20 s */
	uint64_t keepalive_wait_ms;
	/* Pings that a peer may send at once; above it ENHANCE_YOUR_CALM. Ping flood. 20 */
	uint32_t ping_burst;
	/* Interval at which one more ping is allowed. 5 s */
	uint64_t ping_refill_ms;
	/* The same for SETTINGS, PRIORITY and empty DATA frames and TLS key updates; one
	 * more is allowed every 100 ms. Each counts as eight from an unauthenticated peer.
	 * Settings flood. 500 */
	uint32_t settings_burst;
	/* The same for RST_STREAM frames, and for those that the peer makes us send; each of
	 * the latter counts as eight with an unauthenticated peer. Rapid reset,
	 * MadeYouReset. 1000 */
	uint32_t reset_burst;
	/* Resets that are added to the burst each second. 100 */
	uint32_t reset_per_second;
};

/* The limits with every 0 replaced by its default. */
struct net_limits net_limits_defaulted(const struct net_limits *limits);

#endif
