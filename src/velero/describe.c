/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/describe.h"

#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "repo/repo_store.h"
#include "velero/backup_files.h"
#include "velero/csi_records.h"
#include "velero/location.h"
#include "velero/restore_order.h"
#include "velero/velero_names.h"

#define STORE_RETRY_MS 10000U

static const struct kube_resource data_uploads = {.group = "velero.io",
						  .version = "v2alpha1",
						  .plural = "datauploads",
						  .kind = "DataUpload",
						  .namespaced = true};
static const struct kube_resource deployments = {.group = "apps",
						 .version = "v1",
						 .plural = "deployments",
						 .kind = "Deployment",
						 .namespaced = true};

struct describing {
	const struct velero_describe *what;
	struct repo_store *store; /* borrowed or `opened` */
	struct repo_store *opened;
	json_t *backup;
	json_t *result;
	char selector[VELERO_SELECTOR_MAX];
};

static void describing_done(struct describing *d)
{
	json_decref(d->backup);
	json_decref(d->result);
	repo_store_close(d->opened);
}

/* A remark about what could not be read. The picture is given without it. */
static int add_note(struct describing *d, const char *about, const char *why, struct cairn_err *err)
{
	cairn_auto_free char *text = cairn_printf("%s: %s", about, why);

	if (!text || json_array_append_new(json_object_get(d->result, "notes"), json_string(text)))
		return cairn_err_nomem(err, "a note");
	return 0;
}

static json_t *text_or_null(const char *text)
{
	return text ? json_string(text) : json_null();
}

static json_t *number_at(const json_t *object, const char *a, const char *b, const char *c)
{
	int64_t value = 0;

	return (c ? kube_i64(object, &value, a, b, c) : kube_i64(object, &value, a, b))
		       ? json_integer(value)
		       : json_null();
}

static json_t *size_of_text(const char *text)
{
	uint64_t bytes = 0;

	return text && backup_cluster_quantity(text, &bytes) ? json_integer((json_int_t)bytes)
							     : json_null();
}

static int find_backup_object(struct describing *d, struct cairn_err *err)
{
	const struct velero_describe *w = d->what;

	if (w->client)
		return kube_get(w->client, KUBE_REF(&velero_backups, w->ns, w->name), NULL,
				&d->backup, err);
	return velero_file_read(w->store, w->name, VELERO_FILE_METADATA, &d->backup, err);
}

static int start_result(struct describing *d, struct cairn_err *err)
{
	const json_t *b = d->backup;

	d->result = json_pack(
		"{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:[], s:[], s:[], s:[], s:[]}",
		"name", d->what->name, "phase", text_or_null(kube_str(b, "status", "phase")),
		"started", text_or_null(kube_str(b, "status", "startTimestamp")), "completed",
		text_or_null(kube_str(b, "status", "completionTimestamp")), "errors",
		number_at(b, "status", "errors", NULL), "warnings",
		number_at(b, "status", "warnings", NULL), "location",
		text_or_null(kube_str(b, "spec", "storageLocation")), "items", "total",
		number_at(b, "status", "progress", "totalItems"), "done",
		number_at(b, "status", "progress", "itemsBackedUp"), "csi_snapshots", "volumes",
		"uploads", "restore_order", "notes");
	return d->result ? 0 : cairn_err_nomem(err, "a description");
}

/* The store of the Backup; without one the picture has a note. */
static int open_store(struct describing *d, struct cairn_err *err)
{
	const struct velero_describe *w = d->what;
	const char *name = kube_str(d->backup, "spec", "storageLocation");
	kube_auto_json json_t *location = NULL;
	struct cairn_err why = {0};
	int rc;

	d->store = w->store;
	if (d->store)
		return 0;
	rc = kube_get(w->client, KUBE_REF(&velero_locations, w->ns, name ? name : "default"), NULL,
		      &location, &why);
	if (!rc)
		rc = velero_location_open(w->client, location, NULL, STORE_RETRY_MS, NULL,
					  &d->opened, &why);
	d->store = d->opened;
	return rc ? add_note(d, "object store", why.msg, err) : 0;
}

static int add_to(struct describing *d, const char *list, json_t *entry, struct cairn_err *err)
{
	return json_array_append_new(json_object_get(d->result, list), entry)
		       ? cairn_err_nomem(err, "a description")
		       : 0;
}

static json_t *csi_entry(const json_t *snapshot)
{
	return json_pack(
		"{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "namespace", kube_namespace(snapshot),
		"claim",
		text_or_null(kube_str(snapshot, "spec", "source", "persistentVolumeClaimName")),
		"snapshot", kube_name(snapshot), "content",
		text_or_null(kube_str(snapshot, "status", "boundVolumeSnapshotContentName")),
		"handle", text_or_null(kube_annotation(snapshot, VELERO_ANNOTATION_HANDLE)),
		"driver", text_or_null(kube_annotation(snapshot, VELERO_ANNOTATION_DRIVER)), "size",
		size_of_text(kube_str(snapshot, "status", "restoreSize")), "ready",
		kube_at(snapshot, "status", "readyToUse")
			? json_boolean(kube_is(snapshot, "status", "readyToUse"))
			: json_null());
}

/* VolumeSnapshots in the cluster, of a backup that runs or has no list in its store. */
static int live_csi(struct describing *d, json_t **ret, struct cairn_err *err)
{
	struct kube_client *client = d->what->client;
	const struct kube_list_query query = {.label_selector = d->selector};
	kube_auto_json json_t *snapshots = NULL, *contents = NULL;
	int rc = kube_list(client, KUBE_REF(&kube_volumesnapshots, NULL, NULL), &query, NULL,
			   &snapshots, err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), &query,
			       NULL, &contents, err);
	return rc ? rc : velero_csi_records(snapshots, contents, ret, err);
}

static int describe_csi(struct describing *d, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	struct cairn_err why = {0};
	size_t i;
	json_t *snapshot;
	int rc = d->store ? velero_file_read(d->store, d->what->name, VELERO_FILE_CSI, &list, &why)
			  : CAIRN_NOT_FOUND;

	if (rc && d->what->client) {
		json_decref(list);
		list = NULL;
		rc = live_csi(d, &list, &why);
	}
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : add_note(d, "CSI snapshots", why.msg, err);
	json_array_foreach(list, i, snapshot)
	{
		if (!rc)
			rc = add_to(d, "csi_snapshots", csi_entry(snapshot), err);
	}
	return rc;
}

static json_t *volume_entry(const json_t *object)
{
	const char *id = kube_str(object, "status", "snapshotID");

	if (!id)
		id = kube_str(object, "status", "providerSnapshotID");
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "volume",
			 text_or_null(kube_str(object, "spec", "persistentVolumeName")), "phase",
			 text_or_null(kube_str(object, "status", "phase")), "snapshot",
			 text_or_null(id), "total",
			 number_at(object, "status", "progress", "TotalBytes"), "done",
			 number_at(object, "status", "progress", "BytesDone"), "message",
			 text_or_null(kube_str(object, "status", "message")), "started",
			 text_or_null(kube_str(object, "status", "startTimestamp")), "completed",
			 text_or_null(kube_str(object, "status", "completionTimestamp")));
}

static int describe_volumes(struct describing *d, struct cairn_err *err)
{
	const struct velero_describe *w = d->what;
	const struct kube_list_query query = {.label_selector = d->selector};
	kube_auto_json json_t *list = NULL, *file = NULL;
	struct cairn_err why = {0};
	const json_t *objects;
	size_t i;
	json_t *object;
	int rc = w->client ? kube_list(w->client, KUBE_REF(&velero_volume_backups, w->ns, NULL),
				       &query, NULL, &list, &why)
			   : CAIRN_NOT_FOUND;

	objects = kube_at(list, "items");
	if (json_array_size(objects) == 0 && d->store) {
		rc = velero_file_read(d->store, w->name, VELERO_FILE_VOLUMES, &file, &why);
		objects = file;
	}
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : add_note(d, "volumes", why.msg, err);
	json_array_foreach(objects, i, object)
	{
		if (!rc)
			rc = add_to(d, "volumes", volume_entry(object), err);
	}
	return rc;
}

static json_t *upload_entry(const json_t *object)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "namespace",
			 text_or_null(kube_str(object, "spec", "sourceNamespace")), "claim",
			 text_or_null(kube_str(object, "spec", "sourcePVC")), "phase",
			 text_or_null(kube_str(object, "status", "phase")), "mover",
			 text_or_null(kube_str(object, "spec", "datamover")), "total",
			 number_at(object, "status", "progress", "totalBytes"), "done",
			 number_at(object, "status", "progress", "bytesDone"), "message",
			 text_or_null(kube_str(object, "status", "message")));
}

static int describe_uploads(struct describing *d, struct cairn_err *err)
{
	const struct velero_describe *w = d->what;
	const struct kube_list_query query = {.label_selector = d->selector};
	kube_auto_json json_t *list = NULL;
	struct cairn_err why = {0};
	size_t i;
	json_t *object;
	int rc = w->client ? kube_list(w->client, KUBE_REF(&data_uploads, w->ns, NULL), &query,
				       NULL, &list, &why)
			   : CAIRN_NOT_FOUND;

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : add_note(d, "uploads", why.msg, err);
	json_array_foreach(kube_at(list, "items"), i, object)
	{
		if (!rc)
			rc = add_to(d, "uploads", upload_entry(object), err);
	}
	return rc;
}

/* The server's order of a restore, from its Deployment. */
static int describe_order(struct describing *d, struct cairn_err *err)
{
	const struct velero_describe *w = d->what;
	kube_auto_json json_t *deployment = NULL;
	json_t *found = NULL;
	struct cairn_err why = {0};
	int rc;

	if (!w->client)
		return 0;
	rc = kube_get(w->client, KUBE_REF(&deployments, w->ns, "velero"), NULL, &deployment, &why);
	if (rc)
		return add_note(d, "order of restores", why.msg, err);
	rc = velero_restore_order_check(
		velero_deployment_flag(deployment, "restore-resource-priorities"), &found, err);
	if (!rc && json_object_set_new(d->result, "restore_order", found))
		rc = cairn_err_nomem(err, "an order");
	return rc;
}

int velero_describe(const struct velero_describe *what, json_t **ret, struct cairn_err *err)
{
	cairn_cleanup(describing_done) struct describing d = {.what = what};
	char label[VELERO_LABEL_VALUE_MAX];
	int rc = velero_label_value(what->name, label, err);

	if (rc)
		return rc;
	velero_selector(VELERO_LABEL_BACKUP, label, d.selector);
	rc = find_backup_object(&d, err);
	if (rc)
		return cairn_err_wrap(err, "backup '%.253s'", what->name);
	rc = start_result(&d, err);
	if (!rc)
		rc = open_store(&d, err);
	if (!rc)
		rc = describe_csi(&d, err);
	if (!rc)
		rc = describe_volumes(&d, err);
	if (!rc)
		rc = describe_uploads(&d, err);
	if (!rc)
		rc = describe_order(&d, err);
	if (!rc)
		*ret = cairn_take(d.result);
	return rc;
}
