/* SPDX-License-Identifier: Apache-2.0 */

/* Where drivers run: a row for each node and driver that the kubelet registered, and for each
 * pod of a driver that it did not. */
#ifndef CAIRN_INVENTORY_NODES_H
#define CAIRN_INVENTORY_NODES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct inventory;

enum inventory_node_state {
	INVENTORY_NODE_UNKNOWN, /* pods may not be listed */
	INVENTORY_NODE_READY,
	INVENTORY_NODE_NOT_READY,
	INVENTORY_NODE_NO_POD,
	INVENTORY_NODE_NOT_REGISTERED, /* the pod runs, the kubelet does not know the driver */
};

/* Strings and trees are borrowed from the inventory; NULL where unknown. */
struct inventory_node {
	const char *node;
	const char *driver;
	enum inventory_node_state state;
	const json_t *pod;
	uint64_t volumes; /* PersistentVolumes of the driver that only this node reaches */
	uint64_t bytes;   /* sum of their sizes */
};

typedef int inventory_node_fn(void *arg, const struct inventory_node *node, struct cairn_err *err);
int inventory_nodes(const struct inventory *inventory, inventory_node_fn *take, void *arg,
		    struct cairn_err *err);

/* "ready", "not ready", …; "-" for an unknown one. */
const char *inventory_node_state_text(enum inventory_node_state state);

#endif
