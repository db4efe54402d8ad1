/* SPDX-License-Identifier: Apache-2.0 */

#include "net/limit_events.h"

#include <stdatomic.h>
#include <stddef.h>

const char *const net_limit_names[N_NET_LIMITS + 1] = {
	[NET_LIMIT_HANDSHAKE_TIME] = "handshake_time",
	[NET_LIMIT_FIRST_BYTE_TIME] = "first_byte_time",
	[NET_LIMIT_HEADER_TIME] = "header_time",
	[NET_LIMIT_HEADER_BYTES] = "header_bytes",
	[NET_LIMIT_REQUEST_TIME] = "request_time",
	[NET_LIMIT_REQUEST_RATE] = "request_rate",
	[NET_LIMIT_REQUESTS] = "requests",
	[NET_LIMIT_MESSAGE_BYTES] = "message_bytes",
	[NET_LIMIT_BUFFERED_BYTES] = "buffered_bytes",
	[NET_LIMIT_STREAMS] = "streams",
	[NET_LIMIT_QUEUED_CALLS] = "queued_calls",
	[NET_LIMIT_WAITING_CALLS] = "waiting_calls",
	[NET_LIMIT_THREADS] = "threads",
	[NET_LIMIT_IDLE_TIME] = "idle_time",
	[NET_LIMIT_STALL_TIME] = "stall_time",
	[NET_LIMIT_UNREAD_ANSWERS] = "unread_answers",
	[NET_LIMIT_KEY_UPDATES] = "key_updates",
	[NET_LIMIT_PROTOCOL] = "protocol",
	[NET_LIMIT_CERTIFICATE] = "certificate",
	[N_NET_LIMITS] = NULL,
};

static _Atomic uint64_t counted[N_NET_LIMITS];

void net_limit_count(enum net_limit limit)
{
	atomic_fetch_add_explicit(&counted[limit], 1, memory_order_relaxed);
}

uint64_t net_limit_counted(enum net_limit limit)
{
	return atomic_load_explicit(&counted[limit], memory_order_relaxed);
}
