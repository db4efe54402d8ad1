/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/inventory_objects.h"

#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define NAME_LABEL "app.kubernetes.io/name"
#define NAME_VALUE "cairn"

static const struct {
	const struct kube_resource *resource;
	const char *labels;    /* selector; NULL: all */
	bool in_all;           /* read from all namespaces in any case */
	const char *installed; /* by what, for a kind that a cluster may lack */
} kinds[INVENTORY_KINDS] = {
	[INVENTORY_SERVICES] = {.resource = &kube_snapshotmetadataservices,
				.installed = "deploy/crd"},
	[INVENTORY_DRIVERS] = {.resource = &kube_csidrivers},
	[INVENTORY_CSINODES] = {.resource = &kube_csinodes},
	[INVENTORY_PODS] = {.resource = &kube_pods,
			    .labels = NAME_LABEL "=" NAME_VALUE,
			    .in_all = true},
	[INVENTORY_VOLUMES] = {.resource = &kube_persistentvolumes},
	[INVENTORY_CLAIMS] = {.resource = &kube_persistentvolumeclaims},
	[INVENTORY_SNAPSHOTS] = {.resource = &kube_volumesnapshots,
				 .installed = "external-snapshotter"},
	[INVENTORY_CONTENTS] = {.resource = &kube_volumesnapshotcontents,
				.installed = "external-snapshotter"},
	[INVENTORY_JOBS] = {.resource = &kube_jobs, .labels = CLUSTER_LABEL_ROLE},
	[INVENTORY_CRONJOBS] = {.resource = &kube_cronjobs},
};

const struct kube_resource *inventory_resource(enum inventory_kind kind)
{
	return kinds[kind].resource;
}

/* Says what to do about a needed list that could not be read. */
static int explain(enum inventory_kind kind, const char *ns, int rc, struct cairn_err *err)
{
	const struct kube_resource *resource = kinds[kind].resource;

	if (rc == CAIRN_DENIED)
		return cairn_err_set(err, rc,
				     "you may not list %s%s%s %s%s: the roles cairn-viewer and "
				     "cairn-viewer-cluster give the rights",
				     resource->plural, resource->group[0] ? "." : "",
				     resource->group, ns ? "in namespace " : "in all namespaces",
				     ns ? ns : "");
	if (rc == CAIRN_NOT_FOUND && kinds[kind].installed)
		return cairn_err_set(err, rc, "the cluster has no %ss: %s brings their definition",
				     resource->kind, kinds[kind].installed);
	return cairn_err_wrap(err, "list %s", resource->plural);
}

static int read_kind(struct kube_client *client, const char *ns, enum inventory_kind kind,
		     bool needed, struct inventory *inventory, struct cairn_err *err)
{
	const struct kube_resource *resource = kinds[kind].resource;
	const struct kube_list_query query = {.label_selector = kinds[kind].labels};
	const char *where = resource->namespaced && !kinds[kind].in_all ? ns : NULL;
	int rc = kube_list(client, KUBE_REF(resource, where, NULL), &query, NULL,
			   &inventory->list[kind], err);

	if (rc == CAIRN_DENIED && !needed)
		inventory->denied |= INVENTORY_BIT(kind);
	else if (rc == CAIRN_NOT_FOUND && !needed && kinds[kind].installed)
		inventory->absent |= INVENTORY_BIT(kind);
	else if (rc)
		return explain(kind, where, rc, err);
	return 0;
}

int inventory_read(struct kube_client *client, const char *ns, unsigned needed, unsigned wanted,
		   struct inventory *ret, struct cairn_err *err)
{
	int rc = 0;

	*ret = (struct inventory){0};
	for (unsigned kind = 0; kind < INVENTORY_KINDS && !rc; kind++)
		if ((needed | wanted) & INVENTORY_BIT(kind))
			rc = read_kind(client, ns, kind, needed & INVENTORY_BIT(kind), ret, err);
	if (rc)
		inventory_done(ret);
	return rc;
}

void inventory_done(struct inventory *inventory)
{
	for (unsigned kind = 0; kind < INVENTORY_KINDS; kind++)
		json_decref(inventory->list[kind]);
	*inventory = (struct inventory){0};
}

const json_t *inventory_items(const struct inventory *inventory, enum inventory_kind kind)
{
	return kube_at(inventory->list[kind], "items");
}

const json_t *inventory_find(const struct inventory *inventory, enum inventory_kind kind,
			     const char *name)
{
	size_t i;
	json_t *item;

	json_array_foreach(inventory_items(inventory, kind), i, item)
	{
		if (strcmp(kube_name(item), name) == 0)
			return item;
	}
	return NULL;
}

bool inventory_has_service(const struct inventory *inventory, const char *driver)
{
	return driver && inventory_find(inventory, INVENTORY_SERVICES, driver);
}

bool inventory_shows_driver(const struct inventory *inventory, const char *driver)
{
	const json_t *object;

	if (!driver)
		return false;
	if (inventory->driver)
		return strcmp(inventory->driver, driver) == 0;
	if (inventory_has_service(inventory, driver))
		return true;
	object = inventory_find(inventory, INVENTORY_DRIVERS, driver);
	return object && cairn_text_same(kube_label(object, NAME_LABEL), NAME_VALUE);
}
