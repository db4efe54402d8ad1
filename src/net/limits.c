/* SPDX-License-Identifier: Apache-2.0 */

#include "net/limits.h"

static uint32_t limits_quarter(uint32_t n)
{
	return n > 4 ? n / 4 : 1;
}

struct net_limits net_limits_defaulted(const struct net_limits *limits)
{
	struct net_limits l = *limits;

#define OR_DEFAULT(field, value) l.field = l.field ? l.field : (value)
	OR_DEFAULT(connections, 1024);
	OR_DEFAULT(connections_each, limits_quarter(l.connections));
	OR_DEFAULT(strangers, l.connections < 1024 ? l.connections : 1024);
	OR_DEFAULT(strangers_each, limits_quarter(l.strangers));
	OR_DEFAULT(handshakes_burst, 512);
	OR_DEFAULT(handshakes_per_second, 64);
	OR_DEFAULT(request_bytes, 32U << 20);
	OR_DEFAULT(request_bytes_each, 8U << 20);
	OR_DEFAULT(request_bytes_connection, 4U << 20);
	OR_DEFAULT(stranger_header_bytes, 1U << 20);
	OR_DEFAULT(control_frames, 128);
	OR_DEFAULT(streams, 1024);
	OR_DEFAULT(workers, 1024);
	OR_DEFAULT(queued_calls, 16384);
	OR_DEFAULT(header_bytes, 64U << 10);
	OR_DEFAULT(continuations, 8);
	OR_DEFAULT(message_bytes, 4U << 20);
	OR_DEFAULT(stream_recv_bytes, 1U << 20);
	OR_DEFAULT(stream_send_bytes, 256U << 10);
	OR_DEFAULT(buffered_bytes, 256U << 20);
	OR_DEFAULT(stream_window, 1U << 20);
	OR_DEFAULT(connection_window, 4U << 20);
	OR_DEFAULT(handshake_ms, 10 * 1000);
	OR_DEFAULT(header_ms, 10 * 1000);
	OR_DEFAULT(request_ms, 60 * 1000);
	OR_DEFAULT(idle_ms, 30 * 60 * 1000);
	OR_DEFAULT(stranger_idle_ms, 2 * 60 * 1000);
	OR_DEFAULT(stall_ms, 10 * 60 * 1000);
	OR_DEFAULT(keepalive_ms, 120 * 1000);
	OR_DEFAULT(keepalive_wait_ms, 20 * 1000);
	OR_DEFAULT(ping_burst, 20);
	OR_DEFAULT(ping_refill_ms, 5 * 1000);
	OR_DEFAULT(settings_burst, 500);
	OR_DEFAULT(reset_burst, 1000);
	OR_DEFAULT(reset_per_second, 100);
#undef OR_DEFAULT
	return l;
}
