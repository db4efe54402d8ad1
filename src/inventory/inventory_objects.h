/* SPDX-License-Identifier: Apache-2.0 */

/* The lists of objects that a view is made of.
 *
 * A person often may list one kind and not another. A kind that a view cannot do without is
 * needed: failing to list it is the error of the command. The others are wanted: if the
 * caller may not list them, or the cluster does not have the kind, that is recorded, and the
 * view shows the fields from it as unknown. Every other failure is an error: a list that
 * could not be read is not an empty list.
 */
#ifndef CAIRN_INVENTORY_OBJECTS_H
#define CAIRN_INVENTORY_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_client;
struct kube_resource;

enum inventory_kind {
	INVENTORY_SERVICES, /* SnapshotMetadataServices */
	INVENTORY_DRIVERS,
	INVENTORY_CSINODES,
	INVENTORY_PODS, /* of drivers, in all namespaces */
	INVENTORY_VOLUMES,
	INVENTORY_CLAIMS,
	INVENTORY_SNAPSHOTS,
	INVENTORY_CONTENTS,
	INVENTORY_JOBS, /* of backups */
	INVENTORY_CRONJOBS,
	INVENTORY_KINDS,
};
#define INVENTORY_BIT(kind) (1U << (kind))

struct inventory {
	json_t *list[INVENTORY_KINDS]; /* NULL: not read */
	unsigned denied;               /* bits of kinds that the caller may not list */
	unsigned absent;               /* bits of kinds that the cluster does not have */
	const char *driver;            /* the only one to show; NULL: Cairn's. Borrowed */
};

/* Reads the kinds whose bits are set, of namespace `ns` or of all with NULL.
 *
 * CAIRN_DENIED     a needed kind may not be listed; the text says which right is missing
 * CAIRN_NOT_FOUND  the cluster does not have a needed kind
 * or the codes of kube_list()
 */
int inventory_read(struct kube_client *client, const char *ns, unsigned needed, unsigned wanted,
		   struct inventory *ret, struct cairn_err *err);
void inventory_done(struct inventory *inventory);

const struct kube_resource *inventory_resource(enum inventory_kind kind);

/* The items of a list; NULL if it was not read. */
const json_t *inventory_items(const struct inventory *inventory, enum inventory_kind kind);

/* True if a view is to show this driver: the one that was named, or one of Cairn's. A driver is
 * Cairn's if its CSIDriver has the label app.kubernetes.io/name=cairn or if it has a
 * SnapshotMetadataService. */
bool inventory_shows_driver(const struct inventory *inventory, const char *driver);

/* True if the driver has a SnapshotMetadataService. */
bool inventory_has_service(const struct inventory *inventory, const char *driver);

/* The object of that name in a list of a kind without namespaces; NULL if there is none. */
const json_t *inventory_find(const struct inventory *inventory, enum inventory_kind kind,
			     const char *name);

#endif
