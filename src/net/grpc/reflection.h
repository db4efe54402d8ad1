/* SPDX-License-Identifier: Apache-2.0 */

/* grpc.reflection.v1 over descriptor sets; list_services reports the services
 * that the server really serves. */
#ifndef CAIRN_NET_REFLECTION_H
#define CAIRN_NET_REFLECTION_H

#include <stddef.h>

struct cairn_err;
struct net_reflection;
struct net_server;

/* Maximum number of descriptor sets. */
#define NET_REFLECTION_SETS_MAX 4

/* Adds the methods of both protocol versions to the server. */
int net_reflection_new(struct net_server *server, struct net_reflection **ret,
		       struct cairn_err *err);
void net_reflection_free(struct net_reflection *reflection); /* accepts NULL */

int net_reflection_add(struct net_reflection *reflection, const void *set, size_t n,
		       struct cairn_err *err);

#endif
