/* SPDX-License-Identifier: Apache-2.0 */

/* Copies the responses of one client call to one server call.
 *
 * A handler that has checked a request starts a relay: messages go from the
 * upstream call to the downstream peer as bytes, on the I/O thread, while the
 * handler's thread waits. A slow downstream peer slows the upstream server
 * through flow control; at most one stream window waits in between. Each
 * message is shown whole to the scan hook before any byte of it is forwarded.
 */
#ifndef CAIRN_NET_RELAY_H
#define CAIRN_NET_RELAY_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct net_call;
struct net_rpc;

struct net_relay_options {
	/* Inspects one message; runs on an I/O thread and must not block. A result
	 * other than 0 stops the relay before this message: upstream is cancelled and
	 * that code with err's text is returned. NULL: no inspection. */
	int (*scan)(void *arg, const uint8_t *message, size_t n, struct cairn_err *err);
	void *arg;
	size_t message_max; /* 0 is 4 MiB */

	/* Relays that flow at present, of all that share this counter: one that has passed
	 * NET_RELAY_FLOWS_BYTES gets NET_RELAY_FLOW_WINDOW from upstream, unless there are
	 * NET_RELAY_FLOWS already. A small window makes both ends wait for each other; a large
	 * one for each relay would let slow callers take much memory. NULL: the window of the
	 * channel for all. */
	_Atomic unsigned *flows;
};

#define NET_RELAY_FLOWS       16U
#define NET_RELAY_FLOWS_BYTES (1U << 20)
#define NET_RELAY_FLOW_WINDOW (512U << 10)
#define NET_RELAY_FLOW_AHEAD  (256U << 10) /* queued for the caller meanwhile */

struct net_relay_result {
	uint64_t messages;
	uint64_t bytes;
};

/* The upstream call's request must be sent and ended, and nothing may have been
 * received from it. Several relays may follow each other on one `call`: messages are
 * passed on whole or not at all. Each may queue a window of upstream at once, so
 * net_call_await_room() belongs between them. Returns when upstream ended: 0 for OK,
 * else its status as a negative code with its message, its details and trailers
 * copied to `call`; or the reason why the downstream call ended
 * (CAIRN_CANCELLED, CAIRN_DEADLINE), on which upstream is cancelled. `ret` may
 * be NULL. The upstream channel must live until this returns: drain the server
 * before its channels are freed. */
int net_relay_run(struct net_call *call, struct net_rpc *upstream,
		  const struct net_relay_options *options, struct net_relay_result *ret,
		  struct cairn_err *err);

#endif
