/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/restore_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/snapshotter.h"
#include "velero/velero_names.h"

#define DEFAULT_CLASS "storageclass.kubernetes.io/is-default-class"
#define SELECTED_NODE "volume.kubernetes.io/selected-node"
#define ZONE_LABEL    "topology.kubernetes.io/zone"

static const struct kube_resource csinodes = {
	.group = "storage.k8s.io", .version = "v1", .plural = "csinodes", .kind = "CSINode"};

void velero_restore_source_done(struct velero_restore_source *source)
{
	json_decref(source->storage_class);
	json_decref(source->classes);
	json_decref(source->restore);
}

/* The class of that name, else the default one of the driver, else any of it. */
static int choose_storage_class(const json_t *list, const char *driver, const char *name,
				json_t **ret, struct cairn_err *err)
{
	json_t *found = NULL, *class_object;
	int best = 0;
	size_t i;

	json_array_foreach(kube_at(list, "items"), i, class_object)
	{
		int rank = strcmp(kube_name(class_object), name) == 0 ? 3
			   : cairn_text_same(kube_annotation(class_object, DEFAULT_CLASS), "true")
				   ? 2
				   : 1;

		if (!cairn_text_same(kube_str(class_object, "provisioner"), driver) || rank <= best)
			continue;
		best = rank;
		found = class_object;
	}
	if (!found)
		return cairn_err_set(err, CAIRN_PRECONDITION, "driver %s has no StorageClass",
				     driver);
	*ret = json_incref(found);
	return 0;
}

static bool node_has_driver(const json_t *node, const char *driver)
{
	size_t i;
	json_t *entry;

	json_array_foreach(kube_at(node, "spec", "drivers"), i, entry)
	{
		if (cairn_text_same(kube_str(entry, "name"), driver))
			return true;
	}
	return false;
}

static bool node_is_in(const struct velero_snapshotter *s, struct kube_client *client,
		       const char *name, const char *zone)
{
	kube_auto_json json_t *node = NULL;

	if (!*zone)
		return true;
	return !kube_get(client, KUBE_REF(&kube_nodes, NULL, name), &s->how, &node, NULL) &&
	       cairn_text_same(kube_label(node, ZONE_LABEL), zone);
}

/* A class that waits for the first consumer makes a volume for the node that is named in the
 * claim. No pod uses this claim, so a node of the driver is named, in the zone if possible. */
static int choose_node(const struct velero_snapshotter *s, struct kube_client *client,
		       const char *driver, const char *zone, struct velero_restore_source *source,
		       struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *node;
	bool in_zone = false;
	int rc;

	if (!cairn_text_same(kube_str(source->storage_class, "volumeBindingMode"),
			     "WaitForFirstConsumer"))
		return 0;
	rc = kube_list(client, KUBE_REF(&csinodes, NULL, NULL), NULL, &s->how, &list, err);
	if (rc)
		return cairn_err_wrap(err, "nodes of driver %s", driver);
	json_array_foreach(kube_at(list, "items"), i, node)
	{
		if (in_zone || !node_has_driver(node, driver))
			continue;
		in_zone = node_is_in(s, client, kube_name(node), zone);
		if (in_zone || !source->node[0])
			snprintf(source->node, sizeof(source->node), "%s", kube_name(node));
	}
	return source->node[0]
		       ? 0
		       : cairn_err_set(err, CAIRN_PRECONDITION, "driver %s has no node", driver);
}

/* Velero runs one restore at a time, and does not tell a volume snapshotter which. */
static void find_restore(const struct velero_snapshotter *s, struct kube_client *client,
			 struct velero_restore_source *source)
{
	kube_auto_json json_t *list = NULL;
	json_t *restore;
	size_t i, n = 0;

	if (kube_list(client, KUBE_REF(&velero_restores, s->world->ns, NULL), NULL, &s->how, &list,
		      NULL))
		return;
	json_array_foreach(kube_at(list, "items"), i, restore)
	{
		if (!cairn_text_same(kube_str(restore, "status", "phase"), "InProgress"))
			continue;
		if (n++ == 0)
			source->restore = json_incref(restore);
	}
	if (n > 1) {
		json_decref(source->restore);
		source->restore = NULL;
	}
	if (source->restore) {
		const char *backup = kube_str(source->restore, "spec", "backupName");

		snprintf(source->backup, sizeof(source->backup), "%s", backup ? backup : "");
	}
}

int velero_restore_source_find(const struct velero_snapshotter *s, const char *driver,
			       const char *volume_type, const char *zone,
			       struct velero_restore_source *ret, struct cairn_err *err)
{
	cairn_cleanup(velero_restore_source_done) struct velero_restore_source source = {0};
	kube_auto_json json_t *list = NULL;
	struct kube_client *client;
	int rc = velero_world_client(s->world, &client, err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_storageclasses, NULL, NULL), NULL, &s->how,
			       &list, err);
	if (!rc)
		rc = choose_storage_class(list, driver, volume_type, &source.storage_class, err);
	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_volumesnapshotclasses, NULL, NULL), NULL,
			       &s->how, &source.classes, err);
	if (!rc)
		rc = choose_node(s, client, driver, zone, &source, err);
	if (rc)
		return rc;
	find_restore(s, client, &source);
	*ret = source;
	source = (struct velero_restore_source){0};
	return 0;
}

uint64_t velero_restore_size(const json_t *snapshot, uint64_t bytes)
{
	const char *text = kube_str(snapshot, "status", "restoreSize");
	uint64_t size = 0;

	return text && backup_cluster_quantity(text, &size) && size > bytes ? size : bytes;
}

/* A claim whose volume comes from `value`, the field `field` of its spec. Takes `value`, also
 * on failure. */
static int restore_claim_from(const struct velero_restore_source *source, const char *ns,
			      const char *name, uint64_t bytes, bool block, const char *field,
			      json_t *value, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *from = value;
	kube_auto_json json_t *claim = kube_object_new(&kube_persistentvolumeclaims, ns, name);
	char size[32];
	int rc = claim ? 0 : cairn_err_nomem(err, "a claim");

	snprintf(size, sizeof(size), "%" PRIu64, bytes ? bytes : 1);
	if (!rc)
		rc = kube_set(claim, err, json_string(VELERO_ROLE_RESTORE), "metadata", "labels",
			      VELERO_LABEL_ROLE);
	if (!rc && source->node[0])
		rc = kube_set(claim, err, json_string(source->node), "metadata", "annotations",
			      SELECTED_NODE);
	if (!rc)
		rc = kube_set(claim, err,
			      json_pack("{s:[s], s:s, s:s, s:{s:{s:s}}}", "accessModes",
					"ReadWriteOnce", "storageClassName",
					kube_name(source->storage_class), "volumeMode",
					block ? "Block" : "Filesystem", "resources", "requests",
					"storage", size),
			      "spec");
	if (!rc)
		rc = kube_set(claim, err, cairn_take(from), "spec", field);
	if (!rc)
		*ret = cairn_take(claim);
	return rc;
}

int velero_restore_claim(const struct velero_restore_source *source, const char *ns,
			 const char *name, uint64_t bytes, bool block, json_t **ret,
			 struct cairn_err *err)
{
	json_t *snapshot = json_pack("{s:s, s:s, s:s}", "apiGroup", "snapshot.storage.k8s.io",
				     "kind", kube_volumesnapshots.kind, "name", name);

	return restore_claim_from(source, ns, name, bytes, block, "dataSource", snapshot, ret, err);
}

int velero_restore_empty_claim(const struct velero_restore_source *source, const char *ns,
			       const char *name, uint64_t bytes, bool block, json_t **ret,
			       struct cairn_err *err)
{
	json_t *selector = json_pack("{s:{s:s}}", "matchLabels", VELERO_LABEL_RESTORED, name);

	return restore_claim_from(source, ns, name, bytes, block, "selector", selector, ret, err);
}
