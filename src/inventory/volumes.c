/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/volumes.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "inventory/inventory_objects.h"
#include "inventory/snapshots.h"
#include "kube/object.h"
#include "kube/string_index.h"

#define PROVISIONER      "volume.kubernetes.io/storage-provisioner"
#define PROVISIONER_BETA "volume.beta.kubernetes.io/storage-provisioner"

/* What the rows are made of. */
struct volume_source {
	const struct inventory *inventory;
	const json_t *volumes;
	struct kube_string_index by_name; /* index of a PersistentVolume */
	struct inventory_snapshot *snapshots;
	size_t n_snapshots;
	struct kube_string_index by_claim; /* index of the last snapshot of "namespace/claim" */
};

static void volume_source_done(struct volume_source *source)
{
	kube_string_index_done(&source->by_name);
	kube_string_index_done(&source->by_claim);
	free(source->snapshots);
}

static int volume_source_index(struct volume_source *source, struct cairn_err *err)
{
	char key[KUBE_KEY_MAX];
	size_t i;
	json_t *item;

	json_array_foreach(source->volumes, i, item)
	{
		if (kube_string_index_put(&source->by_name, kube_name(item), i) < 0)
			return cairn_err_nomem(err, "volumes");
	}
	/* In the order of time, so the last one stays. */
	for (i = 0; i < source->n_snapshots; i++) {
		const struct inventory_snapshot *snapshot = &source->snapshots[i];

		if (snapshot->claim && kube_key_of(snapshot->ns, snapshot->claim, key) &&
		    kube_string_index_put(&source->by_claim, key, i) < 0)
			return cairn_err_nomem(err, "snapshots");
	}
	return 0;
}

static int volume_source_init(struct volume_source *source, const struct inventory *inventory,
			      struct cairn_err *err)
{
	/* The snapshots of a claim count whatever driver made them. */
	struct inventory all = *inventory;
	int rc;

	source->inventory = inventory;
	source->volumes = inventory_items(inventory, INVENTORY_VOLUMES);
	if (kube_string_index_init(&source->by_name) < 0 ||
	    kube_string_index_init(&source->by_claim) < 0)
		return cairn_err_nomem(err, "volumes");
	all.driver = NULL;
	rc = inventory_snapshots(&all, &source->snapshots, &source->n_snapshots, err);
	return rc ? rc : volume_source_index(source, err);
}

const char *inventory_volume_node(const json_t *volume)
{
	const json_t *terms =
		kube_at(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms");
	const json_t *expressions = kube_at(json_array_get(terms, 0), "matchExpressions");
	const json_t *values = kube_at(json_array_get(expressions, 0), "values");
	const char *operation = kube_str(json_array_get(expressions, 0), "operator");

	if (json_array_size(terms) != 1 || json_array_size(expressions) != 1 ||
	    json_array_size(values) != 1 || !operation || strcmp(operation, "In") != 0)
		return NULL;
	return json_string_value(json_array_get(values, 0));
}

static const char *claim_provisioner(const json_t *claim)
{
	const char *name = kube_annotation(claim, PROVISIONER);

	return name ? name : kube_annotation(claim, PROVISIONER_BETA);
}

static const json_t *volume_of(const struct volume_source *source, const json_t *claim)
{
	const char *name = kube_str(claim, "spec", "volumeName");
	size_t at = name ? kube_string_index_find(&source->by_name, name) : KUBE_SLOT_NONE;

	return at == KUBE_SLOT_NONE ? NULL : json_array_get(source->volumes, at);
}

static void count_snapshots(const struct volume_source *source, struct inventory_volume *row)
{
	char key[KUBE_KEY_MAX];
	const struct inventory_snapshot *rows = source->snapshots;
	size_t at = kube_key_of(row->ns, row->claim, key)
			    ? kube_string_index_find(&source->by_claim, key)
			    : KUBE_SLOT_NONE;

	if (at == KUBE_SLOT_NONE)
		return;
	row->newest = rows[at].name;
	row->newest_ns = rows[at].created_ns;
	for (size_t i = at + 1; i-- > 0;) {
		if (strcmp(rows[i].ns, row->ns) != 0 || !rows[i].claim ||
		    strcmp(rows[i].claim, row->claim) != 0)
			break;
		row->snapshots++;
	}
}

static void fill_volume(const struct volume_source *source, const json_t *claim,
			struct inventory_volume *row)
{
	const json_t *volume = volume_of(source, claim);
	const char *size = kube_str(claim, "status", "capacity", "storage");

	*row = (struct inventory_volume){
		.ns = kube_namespace(claim),
		.claim = kube_name(claim),
		.volume = kube_str(claim, "spec", "volumeName"),
		.driver = volume ? kube_str(volume, "spec", "csi", "driver")
				 : claim_provisioner(claim),
		.handle = kube_str(volume, "spec", "csi", "volumeHandle"),
		.node = inventory_volume_node(volume),
		.mode = kube_str(claim, "spec", "volumeMode"),
		.phase = kube_str(claim, "status", "phase"),
		.storage_class = kube_str(claim, "spec", "storageClassName"),
	};
	if (!size || !backup_cluster_quantity(size, &row->size))
		row->size = 0;
	count_snapshots(source, row);
}

int inventory_volumes(const struct inventory *inventory, inventory_volume_fn *take, void *arg,
		      struct cairn_err *err)
{
	cairn_cleanup(volume_source_done) struct volume_source source = {0};
	int rc = volume_source_init(&source, inventory, err);
	size_t i;
	json_t *item;

	if (rc)
		return rc;
	json_array_foreach(inventory_items(inventory, INVENTORY_CLAIMS), i, item)
	{
		struct inventory_volume row;

		fill_volume(&source, item, &row);
		if (inventory_shows_driver(inventory, row.driver))
			rc = take(arg, &row, err);
		if (rc)
			return rc;
	}
	return 0;
}
