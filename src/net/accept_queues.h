/* SPDX-License-Identifier: Apache-2.0 */

/* Listening sockets of one TCP address, to which the kernel assigns connections by the peer's
 * address (IPv6: its /64).
 *
 * A listening socket is a queue. If a server has only one, every connection that a peer opens
 * waits behind those that others opened before it: a flood of a few addresses delays all
 * callers by the time that its connections take to be accepted, and a full queue drops their
 * SYNs. Here an address waits only behind the addresses of its own queue. The owner accepts a
 * few connections from each queue in turn.
 *
 * A hash of the address selects one of the calm queues, at random in each process; an address
 * that floods the server is then given one of the other queues (net/accept_floods.h), so that
 * nobody waits behind it. A kernel that cannot run the filter assigns connections by address and
 * port, which spreads a flood over all queues.
 */
#ifndef CAIRN_NET_ACCEPT_QUEUES_H
#define CAIRN_NET_ACCEPT_QUEUES_H

#include <stddef.h>
#include <stdint.h>

#define NET_ACCEPT_QUEUES_CALM  32U
#define NET_ACCEPT_QUEUES_FLOOD 8U /* the last ones */
#define NET_ACCEPT_QUEUES       (NET_ACCEPT_QUEUES_CALM + NET_ACCEPT_QUEUES_FLOOD)

struct cairn_err;
struct net_accept_floods;
struct net_address;

/* Begins to listen. Fills `ret_fds`, which the caller owns, and returns their number: fewer
 * than NET_ACCEPT_QUEUES, but at least one, if descriptors are short; then none is for floods.
 * The caller owns `*ret_floods` as well. Returns a negative code on failure, also if another
 * process listens on the address; `text` names the address in messages. */
int net_accept_queues_open(const struct net_address *address, const char *text,
			   int ret_fds[NET_ACCEPT_QUEUES], struct net_accept_floods **ret_floods,
			   uint16_t *ret_port, struct cairn_err *err);

/* Closes a connection that is over a limit. The peer gets a reset: a close in order takes more
 * processor time, and leaves a socket in TIME_WAIT for each connection of a flood. */
void net_accept_refuse(int fd);

#endif
