/* SPDX-License-Identifier: Apache-2.0 */

/* Where connections of crowds wait for their first byte.
 *
 * A connection has a thread once it has said something. Connections of crowds may never do
 * that, and starting and ending a thread for each of them would take the processors from
 * callers; here one thread of low priority watches all of them. It starts the threads of
 * those that speak, which inherit the low priority, and closes those that are displaced or
 * silent for too long. It also accepts the connections of a flood.
 */
#ifndef CAIRN_NET_HTTP_LOBBY_H
#define CAIRN_NET_HTTP_LOBBY_H

#include <stdbool.h>

struct cairn_err;
struct net_http_connection;
struct net_http_lobby;
struct net_http_server;

int net_http_lobby_new(struct net_http_server *server, struct net_http_lobby **ret,
		       struct cairn_err *err);

/* Accepts NULL. */
void net_http_lobby_free(struct net_http_lobby *lobby);

/* False if the thread cannot be started. */
bool net_http_lobby_start(struct net_http_lobby *lobby, const char *name);

/* Ends the thread and closes the connections that still wait. Accepts NULL. */
void net_http_lobby_stop(struct net_http_lobby *lobby);

/* Takes over the connection; from any thread. */
void net_http_lobby_add(struct net_http_lobby *lobby, struct net_http_connection *connection);

/* Makes the thread look at the queues that it accepts from (http_acceptor.h). */
void net_http_lobby_wake(struct net_http_lobby *lobby);

#endif
