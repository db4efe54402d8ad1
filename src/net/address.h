/* SPDX-License-Identifier: Apache-2.0 */

/* "host:port" and unix paths as socket addresses. */
#ifndef CAIRN_NET_ADDRESS_H
#define CAIRN_NET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

struct cairn_err;

struct net_address {
	struct sockaddr_storage addr;
	socklen_t len;
};

/* Parses "host:port". The host is a literal IPv4 or [IPv6] address, or empty
 * for all addresses; names are not resolved.
 *
 * CAIRN_INVALID  not a literal address and port
 */
int net_address_parse(const char *text, struct net_address *ret, struct cairn_err *err);

/* CAIRN_INVALID  the path is empty or longer than a socket path may be */
int net_address_unix(const char *path, struct net_address *ret, struct cairn_err *err);

/* Reduces a peer's address to the part that the peer cannot choose: the port is
 * removed, an IPv4-mapped address becomes IPv4, and an IPv6 address becomes its
 * /64. */
void net_address_to_origin(struct net_address *address);

bool net_address_is_loopback(const struct net_address *address);

#endif
