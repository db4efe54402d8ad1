/* SPDX-License-Identifier: Apache-2.0 */

/* grpc.health.v1.Health of a server: the state of its services, and the
 * watchers, whose number is limited (call_places.h). */
#ifndef CAIRN_NET_HEALTH_H
#define CAIRN_NET_HEALTH_H

#include <stdbool.h>

struct cairn_err;
struct net_health;
struct net_server;

#define NET_HEALTH_SERVICES_MAX 64 /* named by the program itself */

struct net_health *net_health_new(void);
void net_health_free(struct net_health *health); /* accepts NULL */

/* Adds Check and Watch to the server. */
int net_health_serve(struct net_health *health, struct net_server *server, struct cairn_err *err);

int net_health_set(struct net_health *health, const char *service, bool serving,
		   struct cairn_err *err);

/* All services stop serving permanently; watchers are notified and their calls
 * end. */
void net_health_shut_down(struct net_health *health);

#endif
