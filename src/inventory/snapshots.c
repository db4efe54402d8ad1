/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/snapshots.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "inventory/inventory_objects.h"
#include "kube/kube_resource.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "kube/string_index.h"
#include "kube/timestamp.h"

/* Where kube_snapshot_resolve() gets its objects. */
struct source {
	const json_t *snapshot;
	const json_t *contents;
	struct kube_string_index by_name;
};

static int source_get(void *arg, const struct kube_ref *ref, json_t **ret, struct cairn_err *err)
{
	const struct source *source = arg;
	size_t at;

	if (ref->resource == &kube_volumesnapshots) {
		*ret = json_incref((json_t *)(uintptr_t)source->snapshot);
		return 0;
	}
	at = kube_string_index_find(&source->by_name, ref->name);
	if (at == KUBE_SLOT_NONE)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no VolumeSnapshotContent '%s'",
				     ref->name);
	*ret = json_incref(json_array_get(source->contents, at));
	return 0;
}

static int source_init(struct source *source, const struct inventory *inventory,
		       struct cairn_err *err)
{
	size_t i;
	json_t *item;

	source->contents = inventory_items(inventory, INVENTORY_CONTENTS);
	if (kube_string_index_init(&source->by_name) < 0)
		return cairn_err_nomem(err, "contents");
	json_array_foreach(source->contents, i, item)
	{
		if (kube_string_index_put(&source->by_name, kube_name(item), i) < 0)
			return cairn_err_nomem(err, "contents");
	}
	return 0;
}

static void source_done(struct source *source)
{
	kube_string_index_done(&source->by_name);
}

/* The facts of the content, if the snapshot is usable. */
static void fill_from_content(struct inventory_snapshot *row, struct source *source)
{
	const struct kube_snapshot_query query = {
		.ns = row->ns, .name = row->name, .get = source_get, .arg = source};
	struct kube_snapshot found;
	struct cairn_err why;
	int64_t cut_ns = 0;

	if (!source->contents)
		return;
	row->ready = kube_snapshot_resolve(&query, &found, &why) == 0;
	if (!row->ready)
		return;
	row->driver = found.driver;
	row->handle = found.handle;
	row->volume_handle = found.volume_handle;
	/* To the nanosecond, where the VolumeSnapshot has seconds: two of one second have an order. */
	if (kube_i64(found.content, &cut_ns, "status", "creationTime") && cut_ns > 0)
		row->created_ns = (uint64_t)cut_ns;
	kube_snapshot_done(&found); /* the inventory still holds both objects */
}

static void fill_row(struct inventory_snapshot *row, struct source *source)
{
	const json_t *snapshot = source->snapshot;
	const char *size = kube_str(snapshot, "status", "restoreSize");

	*row = (struct inventory_snapshot){
		.ns = kube_namespace(snapshot),
		.name = kube_name(snapshot),
		.claim = kube_str(snapshot, "spec", "source", "persistentVolumeClaimName"),
		.ready = kube_is(snapshot, "status", "readyToUse"),
	};
	if (!size || !backup_cluster_quantity(size, &row->size))
		row->size = 0;
	if (!kube_time_parse(kube_str(snapshot, "status", "creationTime"), &row->created_ns) &&
	    !kube_time_parse(kube_str(snapshot, "metadata", "creationTimestamp"), &row->created_ns))
		row->created_ns = 0;
	fill_from_content(row, source);
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_rows(const void *left, const void *right)
{
	const struct inventory_snapshot *a = left, *b = right;
	int order = strcmp(a->ns, b->ns);

	if (!order)
		order = compare_texts(a->claim, b->claim);
	if (!order)
		order = (a->created_ns > b->created_ns) - (a->created_ns < b->created_ns);
	return order ? order : strcmp(a->name, b->name);
}

static bool is_base_of(const struct inventory_snapshot *base,
		       const struct inventory_snapshot *target)
{
	return base->ready && base->volume_handle && target->volume_handle &&
	       strcmp(base->volume_handle, target->volume_handle) == 0 &&
	       cairn_text_same(base->driver, target->driver) &&
	       base->created_ns < target->created_ns;
}

/* Rows are in order, so the nearest one before is the newest. A claim that was made again
 * under its name has another volume, so those between may belong to another. */
static void find_bases(const struct inventory *inventory, struct inventory_snapshot *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct inventory_snapshot *row = &rows[i];

		if (!row->ready || !inventory_has_service(inventory, row->driver))
			continue;
		for (size_t k = i; k-- > 0 && strcmp(rows[k].ns, row->ns) == 0 && !row->base;) {
			if (compare_texts(rows[k].claim, row->claim) != 0)
				break;
			if (is_base_of(&rows[k], row))
				row->base = rows[k].name;
		}
	}
}

int inventory_snapshots(const struct inventory *inventory, struct inventory_snapshot **ret,
			size_t *ret_n, struct cairn_err *err)
{
	const json_t *items = inventory_items(inventory, INVENTORY_SNAPSHOTS);
	size_t n = 0;
	cairn_auto_free struct inventory_snapshot *rows =
		cairn_calloc(json_array_size(items) + 1, sizeof(*rows));
	cairn_cleanup(source_done) struct source source = {0};
	int rc = rows ? source_init(&source, inventory, err) : cairn_err_nomem(err, "snapshots");
	size_t i;
	json_t *item;

	if (rc)
		return rc;
	json_array_foreach(items, i, item)
	{
		source.snapshot = item;
		fill_row(&rows[n], &source);
		n += !inventory->driver || !rows[n].driver ||
		     strcmp(rows[n].driver, inventory->driver) == 0;
	}
	qsort(rows, n, sizeof(*rows), compare_rows);
	find_bases(inventory, rows, n);
	*ret_n = n;
	*ret = cairn_take(rows);
	return 0;
}
