/* SPDX-License-Identifier: Apache-2.0 */

/* Establishes one connected socket to a target: a unix path, or a host and port
 * whose addresses are tried in turn. Names are resolved on a separate thread,
 * because that blocks. */
#ifndef CAIRN_NET_CONNECTOR_H
#define CAIRN_NET_CONNECTOR_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct net_connector;
struct net_loop;

/* Called on the loop's thread, once per attempt, with the socket, which the
 * callee owns; or with -1 and the reason of the failure. */
typedef void (*net_connected)(void *arg, int fd, const struct cairn_err *err);

/* CAIRN_INVALID  the target is not "unix:/path" or "host:port" */
int net_connector_new(const char *target, struct net_loop *loop, net_connected done, void *arg,
		      struct net_connector **ret, struct cairn_err *err);

/* Call on the loop's thread while no attempt is in progress. Accepts NULL. */
void net_connector_free(struct net_connector *c);

/* "host:port" without the unix prefix; "localhost" for unix. */
const char *net_connector_authority(const struct net_connector *c);
/* The host alone, without brackets; NULL for unix. */
const char *net_connector_host(const struct net_connector *c);
/* True when bytes cannot leave the host: unix, or a literal loopback address,
 * or "localhost". */
bool net_connector_is_local(const struct net_connector *c);

/* Both on the loop's thread. Stopping calls no callback; it waits for a name
 * resolution in progress. */
void net_connector_start(struct net_connector *c, uint64_t wait_ms);
void net_connector_stop(struct net_connector *c);

#endif
