/* SPDX-License-Identifier: Apache-2.0 */

/* The gRPC services of a plugin process: Velero's actions, the list of them, and what
 * go-plugin expects. */
#ifndef CAIRN_VELERO_SERVICES_H
#define CAIRN_VELERO_SERVICES_H

#include <stddef.h>

#include "velero/world.h"

struct cairn_err;
struct net_server;

/* An item, a Backup and the item as it was: what Kubernetes stores is smaller by far, and one
 * call must not take the memory of Velero's container. */
#define VELERO_REQUEST_MAX (16U << 20)

struct velero_services {
	struct velero_world *world;
	const char *program; /* argv[0], which Velero executes again */

	/* Velero asked for the end, or has gone; on any thread. */
	void (*ended)(void *arg);
	void *arg;
};

/* Adds all methods; everything is borrowed for the server's life. */
int velero_services_add(struct velero_services *services, struct net_server *server,
			struct cairn_err *err);

#endif
