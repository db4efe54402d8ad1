/* SPDX-License-Identifier: Apache-2.0 */

/* Claims of Cairn's drivers, or of the one that was named. */
#ifndef CAIRN_INVENTORY_VOLUMES_H
#define CAIRN_INVENTORY_VOLUMES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct inventory;

/* Strings are borrowed from the inventory; NULL where unknown. */
struct inventory_volume {
	const char *ns;
	const char *claim;
	const char *volume; /* PersistentVolume */
	const char *driver;
	const char *handle;
	const char *node; /* the only one that reaches the volume */
	const char *mode; /* "Block", "Filesystem" */
	const char *phase;
	const char *storage_class;
	uint64_t size;      /* bytes; 0: unknown */
	uint64_t snapshots; /* VolumeSnapshots of the claim */
	const char *newest; /* of them */
	uint64_t newest_ns; /* when it was cut; 0: unknown */
};

/* Calls `take` for each claim, in the order of the list. A claim without a volume counts for the
 * driver that its annotations name. */
typedef int inventory_volume_fn(void *arg, const struct inventory_volume *volume,
				struct cairn_err *err);
int inventory_volumes(const struct inventory *inventory, inventory_volume_fn *take, void *arg,
		      struct cairn_err *err);

/* The only node that the PersistentVolume's affinity allows, by a label of the driver's topology or
 * by the node's name; NULL where there is none or more than one. */
const char *inventory_volume_node(const json_t *volume);

#endif
