/* SPDX-License-Identifier: Apache-2.0 */

/* Counts how often each limit on peers acted, for cairn_net_limited_total. docs/limits.md has the
 * limits; those with a counter of their own (net/shares.h) are not counted here.
 *
 * Counters of the process, thread-safe.
 */
#ifndef CAIRN_NET_LIMIT_EVENTS_H
#define CAIRN_NET_LIMIT_EVENTS_H

#include <stdint.h>

/* In the order of net_limit_names. */
enum net_limit {
	NET_LIMIT_HANDSHAKE_TIME,
	NET_LIMIT_FIRST_BYTE_TIME,
	NET_LIMIT_HEADER_TIME,
	NET_LIMIT_HEADER_BYTES,
	NET_LIMIT_REQUEST_TIME,
	NET_LIMIT_REQUEST_RATE,
	NET_LIMIT_REQUESTS,
	NET_LIMIT_MESSAGE_BYTES,
	NET_LIMIT_BUFFERED_BYTES,
	NET_LIMIT_STREAMS,
	NET_LIMIT_QUEUED_CALLS,
	NET_LIMIT_WAITING_CALLS,
	NET_LIMIT_THREADS,
	NET_LIMIT_IDLE_TIME,
	NET_LIMIT_STALL_TIME,
	NET_LIMIT_UNREAD_ANSWERS,
	NET_LIMIT_KEY_UPDATES,
	NET_LIMIT_PROTOCOL,
	NET_LIMIT_CERTIFICATE,
	N_NET_LIMITS
};

/* Values of the label, ended by NULL. */
extern const char *const net_limit_names[N_NET_LIMITS + 1];

void net_limit_count(enum net_limit limit);
uint64_t net_limit_counted(enum net_limit limit);

#endif
