/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses that flood a server with connections, and the filter that assigns connections to the
 * queues of net/accept_queues.h.
 *
 * A filter without memory can only hash addresses, so that some callers share a queue with a
 * flood and wait behind it. The owner therefore reports each connection of a crowd, and each
 * refused one. After NET_FLOOD_AFTER reports an address is a flood: the filter is replaced by
 * one that names it, and its next connections arrive in the queues for floods, in which no other
 * address has any. The filter compares a hash that is different for each IPv4 address; two IPv6
 * networks have the same one with a probability of 2^-31, and nobody outside knows which.
 *
 * At most NET_FLOODS_MAX addresses are kept; a flood is forgotten when it has been silent for
 * NET_FLOOD_FORGET_MS. Reports may come from any thread and never wait for another one.
 */
#ifndef CAIRN_NET_ACCEPT_FLOODS_H
#define CAIRN_NET_ACCEPT_FLOODS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cleanup.h"

#define NET_FLOODS_MAX      128
#define NET_FLOOD_AFTER     16
#define NET_FLOOD_FORGET_MS 5000

struct cairn_err;
struct net_accept_floods;

int net_accept_floods_new(struct net_accept_floods **ret, struct cairn_err *err);
void net_accept_floods_free(struct net_accept_floods *floods); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct net_accept_floods, net_accept_floods_free);

/* Attaches the first filter to the group of sockets that `listening` belongs to. Without this
 * call, or if the kernel refuses it, the kernel assigns connections by itself and no address
 * becomes a flood. */
void net_accept_floods_begin(struct net_accept_floods *floods, int listening);

/* Reports a connection of a crowd, or a refused one, which came from `peer` by the group of
 * `listening`. False if the address cannot get queues of its own: there are too many floods, or
 * no filter. */
bool net_accept_floods_report(struct net_accept_floods *floods, int listening,
			      const struct sockaddr_storage *peer, uint64_t now_ns);

#endif
