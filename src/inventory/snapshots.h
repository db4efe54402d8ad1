/* SPDX-License-Identifier: Apache-2.0 */

/* VolumeSnapshots with their driver, and for each the snapshot that a delta can begin at. */
#ifndef CAIRN_INVENTORY_SNAPSHOTS_H
#define CAIRN_INVENTORY_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct inventory;

/* Strings are borrowed from the inventory; NULL where unknown. */
struct inventory_snapshot {
	const char *ns;
	const char *name;
	const char *claim;
	const char *driver;
	const char *handle;
	const char *volume_handle;
	uint64_t size; /* bytes; 0: unknown */
	uint64_t created_ns;
	bool ready; /* as kube/kube_snapshot.h defines it, if contents could be listed */

	/* The newest earlier VolumeSnapshot of the same volume and namespace that is usable, if
	 * the driver has a service that can list what changed since; else NULL. */
	const char *base;
};

/* All of the inventory's driver or of an unknown one, or of all drivers, by namespace, claim
 * and time. *ret has *ret_n rows and is freed with free(). */
int inventory_snapshots(const struct inventory *inventory, struct inventory_snapshot **ret,
			size_t *ret_n, struct cairn_err *err);

#endif
