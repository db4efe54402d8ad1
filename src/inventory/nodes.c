/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/nodes.h"

#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/err.h"
#include "base/text.h"
#include "inventory/inventory_objects.h"
#include "inventory/volumes.h"
#include "kube/object.h"

#define COMPONENT_LABEL  "app.kubernetes.io/component"
#define COMPONENT_DRIVER "driver"
#define DRIVER_NAME_FLAG "--driver-name="

const char *inventory_node_state_text(enum inventory_node_state state)
{
	static const char *const texts[] = {
		[INVENTORY_NODE_UNKNOWN] = "-",
		[INVENTORY_NODE_READY] = "ready",
		[INVENTORY_NODE_NOT_READY] = "not ready",
		[INVENTORY_NODE_NO_POD] = "no pod",
		[INVENTORY_NODE_NOT_REGISTERED] = "not registered",
	};

	return texts[state];
}

/* The name in the arguments of a driver's pod; NULL for any other pod. Labels and arguments are
 * anybody's choice, but a driver is privileged, and a user who may start such pods controls the
 * node. */
static const char *driver_of_pod(const json_t *pod)
{
	size_t i, k;
	json_t *container, *word;

	if (!cairn_text_same(kube_label(pod, COMPONENT_LABEL), COMPONENT_DRIVER))
		return NULL;
	json_array_foreach(kube_at(pod, "spec", "containers"), i, container)
	{
		if (!kube_is(container, "securityContext", "privileged"))
			continue;
		json_array_foreach(kube_at(container, "args"), k, word)
		{
			const char *text = json_string_value(word);

			if (text && strncmp(text, DRIVER_NAME_FLAG, strlen(DRIVER_NAME_FLAG)) == 0)
				return text + strlen(DRIVER_NAME_FLAG);
		}
	}
	return NULL;
}

static const json_t *find_pod(const struct inventory *inventory, const char *node,
			      const char *driver)
{
	size_t i;
	json_t *pod;

	json_array_foreach(inventory_items(inventory, INVENTORY_PODS), i, pod)
	{
		if (cairn_text_same(kube_str(pod, "spec", "nodeName"), node) &&
		    cairn_text_same(driver_of_pod(pod), driver))
			return pod;
	}
	return NULL;
}

static bool pod_is_ready(const json_t *pod)
{
	return cairn_text_same(kube_str(kube_condition(pod, "Ready"), "status"), "True");
}

static bool is_registered(const struct inventory *inventory, const char *node, const char *driver)
{
	const json_t *csinode = inventory_find(inventory, INVENTORY_CSINODES, node);
	size_t i;
	json_t *entry;

	json_array_foreach(kube_at(csinode, "spec", "drivers"), i, entry)
	{
		if (cairn_text_same(kube_str(entry, "name"), driver))
			return true;
	}
	return false;
}

static void node_count_volumes(const struct inventory *inventory, struct inventory_node *row)
{
	size_t i;
	json_t *volume;

	json_array_foreach(inventory_items(inventory, INVENTORY_VOLUMES), i, volume)
	{
		const char *size = kube_str(volume, "spec", "capacity", "storage");
		uint64_t bytes = 0;

		if (!cairn_text_same(kube_str(volume, "spec", "csi", "driver"), row->driver) ||
		    !cairn_text_same(inventory_volume_node(volume), row->node))
			continue;
		row->volumes++;
		if (size && backup_cluster_quantity(size, &bytes))
			row->bytes += bytes;
	}
}

static int take_registered(const struct inventory *inventory, const json_t *csinode,
			   inventory_node_fn *take, void *arg, struct cairn_err *err)
{
	int rc = 0;
	size_t i;
	json_t *entry;

	json_array_foreach(kube_at(csinode, "spec", "drivers"), i, entry)
	{
		struct inventory_node row = {.node = kube_name(csinode),
					     .driver = kube_str(entry, "name")};

		if (!inventory_shows_driver(inventory, row.driver))
			continue;
		row.pod = find_pod(inventory, row.node, row.driver);
		if (row.pod)
			row.state = pod_is_ready(row.pod) ? INVENTORY_NODE_READY
							  : INVENTORY_NODE_NOT_READY;
		else if (inventory_items(inventory, INVENTORY_PODS))
			row.state = INVENTORY_NODE_NO_POD;
		node_count_volumes(inventory, &row);
		rc = take(arg, &row, err);
		if (rc)
			break;
	}
	return rc;
}

int inventory_nodes(const struct inventory *inventory, inventory_node_fn *take, void *arg,
		    struct cairn_err *err)
{
	int rc = 0;
	size_t i;
	json_t *item;

	json_array_foreach(inventory_items(inventory, INVENTORY_CSINODES), i, item)
	{
		rc = take_registered(inventory, item, take, arg, err);
		if (rc)
			return rc;
	}
	json_array_foreach(inventory_items(inventory, INVENTORY_PODS), i, item)
	{
		struct inventory_node row = {.node = kube_str(item, "spec", "nodeName"),
					     .driver = driver_of_pod(item),
					     .state = INVENTORY_NODE_NOT_REGISTERED,
					     .pod = item};

		if (!row.driver || !inventory_shows_driver(inventory, row.driver) ||
		    (row.node && is_registered(inventory, row.node, row.driver)))
			continue;
		node_count_volumes(inventory, &row);
		rc = take(arg, &row, err);
		if (rc)
			return rc;
	}
	return 0;
}
