/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/repository_copy.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/progress.h"
#include "velero/snapshotter.h"
#include "velero/velero_names.h"
#include "velero/watch_until.h"
#include "velero/world.h"

#define TAKEN_MS    (10U * 60U * 1000U)
#define COPIED_MS   (25ULL * 3600U * 1000U) /* the Job ends after 24 hours */
#define TIMEOUT     "10m0s"                 /* of preparations */
#define CLEAN_UP_MS 60000U

static int copy_owner(json_t *object, const struct kube_resource *of, const json_t *owner,
		      struct cairn_err *err)
{
	return kube_set(object, err,
			json_pack("[{s:s, s:s, s:s, s:s, s:b}]", "apiVersion", "velero.io/v1",
				  "kind", of->kind, "name", kube_name(owner), "uid",
				  kube_uid(owner), "controller", 1),
			"metadata", "ownerReferences");
}

static json_t *upload_spec(const struct velero_copy_source *source)
{
	const char *storage_class = kube_str(source->claim, "spec", "storageClassName");
	const char *snapshot_class = kube_str(source->snapshot, "spec", "volumeSnapshotClassName");

	return json_pack(
		"{s:s, s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:s, s:s, s:{s:s}}", "snapshotType", "CSI",
		"datamover", VELERO_MOVER_NAME, "csiSnapshot", "volumeSnapshot",
		kube_name(source->snapshot), "storageClass", storage_class ? storage_class : "",
		"snapshotClass", snapshot_class ? snapshot_class : "", "sourcePVC",
		kube_name(source->claim), "sourceNamespace", kube_namespace(source->claim),
		"backupStorageLocation", kube_str(source->backup, "spec", "storageLocation"),
		"operationTimeout", TIMEOUT, "dataMoverConfig", VELERO_KEEP_SNAPSHOT, "true");
}

/* The labels are Velero's: a server that starts again cancels the uploads of the Backups that it
 * did not finish. */
static int upload_object(const struct velero_copy *copy, const struct velero_copy_source *source,
			 json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *made =
		kube_object_new(&velero_data_uploads, copy->s->world->ns, copy->name);
	char label[VELERO_LABEL_VALUE_MAX];
	int rc = made ? velero_label_value(kube_name(source->backup), label, err)
		      : cairn_err_nomem(err, "a DataUpload");

	if (!rc)
		rc = kube_set(made, err,
			      json_pack("{s:s, s:s, s:s}", VELERO_LABEL_BACKUP, label,
					VELERO_LABEL_BACKUP_UID, kube_uid(source->backup),
					VELERO_LABEL_ROLE, VELERO_ROLE_SNAPSHOTTER),
			      "metadata", "labels");
	if (!rc)
		rc = copy_owner(made, &velero_backups, source->backup, err);
	if (!rc)
		rc = kube_set(made, err, upload_spec(source), "spec");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

static int download_object(const struct velero_copy *copy, const json_t *restore,
			   const struct velero_moved *moved, uint64_t bytes, json_t **ret,
			   struct cairn_err *err)
{
	const char *ns = copy->s->world->ns;
	kube_auto_json json_t *made = kube_object_new(&velero_data_downloads, ns, copy->name);
	int rc = made ? copy_owner(made, &velero_restores, restore, err)
		      : cairn_err_nomem(err, "a DataDownload");

	if (!rc)
		rc = kube_set(
			made, err,
			json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:s, s:s, s:s, s:I}", "datamover",
				  VELERO_MOVER_NAME, "snapshotID", moved->backup_id, "targetVolume",
				  "namespace", ns, "pvc", copy->name, "pv", "", "sourceNamespace",
				  moved->ns, "backupStorageLocation", moved->location,
				  "operationTimeout", TIMEOUT, "snapshotSize", (json_int_t)bytes),
			"spec");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

/* --- waiting --- */

static int copy_is_gone(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_PRECONDITION, "it was deleted");
}

static int copy_is_taken(const json_t *object, void *arg, struct cairn_err *err)
{
	const char *phase = kube_str(object, "status", "phase");

	(void)arg;
	if (!object || kube_is_deleted(object))
		return copy_is_gone(err);
	return phase && *phase && strcmp(phase, "New") != 0;
}

static void copy_show(const struct velero_copy *copy, const json_t *object)
{
	int64_t done = 0, total = 0;

	if (kube_i64(object, &done, "status", "progress", "bytesDone") &&
	    kube_i64(object, &total, "status", "progress", "totalBytes") && done >= 0 && total > 0)
		velero_progress_step(copy->progress, (uint64_t)done, (uint64_t)total,
				     &copy->s->how);
}

static int copy_has_ended(const json_t *object, void *arg, struct cairn_err *err)
{
	const char *phase = kube_str(object, "status", "phase");
	const char *message = kube_str(object, "status", "message");

	if (!object || kube_is_deleted(object))
		return copy_is_gone(err);
	copy_show(arg, object);
	if (cairn_text_same(phase, "Failed") || cairn_text_same(phase, "Canceled"))
		return cairn_err_set(err, CAIRN_PRECONDITION, "%s: %.160s", phase,
				     message ? message : "no reason is given");
	return cairn_text_same(phase, "Completed");
}

/* *ret (may be NULL) is the request as it ended. */
static int copy_wait(const struct velero_copy *copy, const struct kube_resource *resource,
		     json_t **ret, struct cairn_err *err)
{
	struct velero_copy mine = *copy;
	const struct kube_ref *ref = KUBE_REF(resource, copy->s->world->ns, copy->name);
	uint64_t now = cairn_monotonic_ns();
	int rc = velero_watch_until(copy->client, ref, &copy->s->how,
				    now + TAKEN_MS * CAIRN_NS_PER_MS, copy_is_taken, NULL, NULL,
				    err);

	if (rc == CAIRN_DEADLINE)
		return cairn_err_set(
			err, rc, "no data mover takes it: is `cairn manager --velero` running?");
	if (!rc)
		rc = velero_watch_until(copy->client, ref, &copy->s->how,
					now + COPIED_MS * CAIRN_NS_PER_MS, copy_has_ended, &mine,
					ret, err);
	return rc;
}

/* Has its own timeout, because Velero may no longer be waiting. */
static void copy_drop(const struct velero_copy *copy, const struct kube_resource *resource)
{
	const struct kube_call how = {.timeout_ms = CLEAN_UP_MS};
	struct cairn_err err = {0};
	int rc = kube_delete(copy->client, KUBE_REF(resource, copy->s->world->ns, copy->name), NULL,
			     &how, NULL, &err);

	if (rc && rc != CAIRN_NOT_FOUND)
		cairn_log(CAIRN_LOG_WARN, "a request to the data mover is left",
			  CAIRN_STR("kind", resource->kind), CAIRN_STR("name", copy->name),
			  CAIRN_STR("error", err.msg));
}

static int copy_ask(const struct velero_copy *copy, const struct kube_resource *resource,
		    const json_t *object, json_t **ret, struct cairn_err *err)
{
	int rc = kube_create(copy->client, KUBE_REF(resource, copy->s->world->ns, NULL), object,
			     &copy->s->how, NULL, err);

	if (rc == CAIRN_EXISTS)
		rc = 0;
	if (!rc)
		rc = copy_wait(copy, resource, ret, err);
	return rc ? cairn_err_wrap(err, "%s %s", resource->kind, copy->name) : 0;
}

int velero_copy_to_repository(const struct velero_copy *copy,
			      const struct velero_copy_source *source, struct velero_moved *ret,
			      struct cairn_err *err)
{
	const char *location = kube_str(source->backup, "spec", "storageLocation");
	kube_auto_json json_t *object = NULL, *ended = NULL;
	const char *id;
	int rc = location ? upload_object(copy, source, &object, err)
			  : cairn_err_set(err, CAIRN_PRECONDITION,
					  "the Backup has no storage location");

	if (!rc)
		rc = copy_ask(copy, &velero_data_uploads, object, &ended, err);
	if (rc) {
		copy_drop(copy, &velero_data_uploads);
		return rc;
	}
	id = kube_str(ended, "status", "snapshotID");
	if (!velero_is_backup_id(id))
		return cairn_err_set(err, CAIRN_INTERNAL, "DataUpload %s has no id", copy->name);
	snprintf(ret->ns, sizeof(ret->ns), "%s", kube_namespace(source->claim));
	snprintf(ret->location, sizeof(ret->location), "%s", location);
	snprintf(ret->backup_id, sizeof(ret->backup_id), "%s", id);
	return 0;
}

int velero_copy_from_repository(const struct velero_copy *copy, const json_t *restore,
				const struct velero_moved *moved, uint64_t bytes,
				struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = download_object(copy, restore, moved, bytes, &object, err);

	if (!rc)
		rc = copy_ask(copy, &velero_data_downloads, object, NULL, err);
	copy_drop(copy, &velero_data_downloads);
	return rc;
}
