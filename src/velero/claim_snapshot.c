/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/claim_snapshot.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/content_discard.h"
#include "velero/go_duration.h"
#include "velero/velero_names.h"
#include "velero/watch_until.h"

#define TIMEOUT_DEFAULT_MS (10U * 60U * 1000U)
#define CLEANUP_MS         30000U

void velero_csi_snapshot_done(struct velero_csi_snapshot *snapshot)
{
	json_decref(snapshot->snapshot);
	json_decref(snapshot->content);
}

int velero_own_by_backup(json_t *object, const char *name, const char *uid, struct cairn_err *err)
{
	return kube_set(object, err,
			json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "velero.io/v1", "kind",
				  velero_backups.kind, "name", name, "uid", uid),
			"metadata", "ownerReferences");
}

int velero_snapshotter_name(const json_t *backup, const char *volume,
			    char out[VELERO_SNAPSHOTTER_NAME_MAX], struct cairn_err *err)
{
	char hex[VELERO_RESTORED_NAME_MAX];
	int rc = velero_restored_name(kube_uid(backup), volume, hex, err);

	if (!rc)
		snprintf(out, VELERO_SNAPSHOTTER_NAME_MAX, "velero-%.40s", hex);
	return rc;
}

static int snapshot_labels(const json_t *backup, const struct velero_snapshot_wish *wish,
			   json_t **ret, struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX], volume[VELERO_LABEL_VALUE_MAX] = "";
	int rc = velero_label_value(kube_name(backup), label, err);

	if (!rc && wish->volume)
		rc = velero_label_value(wish->volume, volume, err);
	if (rc)
		return rc;
	*ret = json_pack("{s:s, s:s, s:s*}", VELERO_LABEL_BACKUP, label, VELERO_LABEL_ROLE,
			 wish->role, VELERO_LABEL_PV, wish->volume ? volume : NULL);
	return *ret ? 0 : cairn_err_nomem(err, "labels");
}

int velero_csi_snapshot_object(const json_t *claim, const json_t *backup,
			       const struct velero_snapshot_wish *wish, json_t **ret,
			       struct cairn_err *err)
{
	kube_auto_json json_t *object =
		kube_object_new(&kube_volumesnapshots, kube_namespace(claim), wish->name);
	cairn_auto_free char *prefix = cairn_printf("velero-%s-", kube_name(claim));
	json_t *labels = NULL;
	int rc = snapshot_labels(backup, wish, &labels, err);

	if (rc)
		return rc;
	if (!object || !prefix) {
		json_decref(labels);
		return cairn_err_nomem(err, "a VolumeSnapshot");
	}
	rc = kube_set(object, err, labels, "metadata", "labels");
	if (!rc && kube_str(backup, "spec", "storageLocation"))
		rc = kube_set(object, err, json_string(kube_str(backup, "spec", "storageLocation")),
			      "metadata", "annotations", VELERO_ANNOTATION_LOCATION);
	if (!rc)
		rc = kube_set(object, err, json_string(kube_namespace(backup)), "metadata",
			      "annotations", VELERO_ANNOTATION_SERVER);
	/* The API server truncates the prefix so that the name has at most 63 characters
	 * and can be a label's value. */
	if (!rc && !wish->name)
		rc = kube_set(object, err, json_string(prefix), "metadata", "generateName");
	if (!rc && strcmp(kube_namespace(claim), kube_namespace(backup)) == 0)
		rc = velero_own_by_backup(object, kube_name(backup), kube_uid(backup), err);
	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:{s:s}, s:s}", "source", "persistentVolumeClaimName",
					kube_name(claim), "volumeSnapshotClassName",
					wish->class_name),
			      "spec");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

uint64_t velero_snapshot_deadline(const json_t *backup)
{
	const char *text = kube_str(backup, "spec", "csiSnapshotTimeout");
	uint64_t ms = 0;

	if (!text || !velero_go_duration(text, &ms) || ms == 0)
		ms = TIMEOUT_DEFAULT_MS;
	return cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;
}

/* The last error of the driver or its controller, for the message after a timeout. */
struct last_error {
	char text[256];
};

static void claim_snapshot_note_error(struct last_error *last, const json_t *object)
{
	const char *text = kube_str(object, "status", "error", "message");

	if (text)
		snprintf(last->text, sizeof(last->text), "%s", text);
}

static int deleted_meanwhile(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_ABORTED, "it was deleted while the backup waited for it");
}

static int is_cut(const json_t *snapshot, void *arg, struct cairn_err *err)
{
	if (!snapshot || kube_is_deleted(snapshot))
		return deleted_meanwhile(err);
	claim_snapshot_note_error(arg, snapshot);
	return kube_str(snapshot, "status", "boundVolumeSnapshotContentName") &&
	       kube_str(snapshot, "status", "creationTime");
}

static int has_handle(const json_t *content, void *arg, struct cairn_err *err)
{
	const char *handle = kube_str(content, "status", "snapshotHandle");

	if (!content || kube_is_deleted(content))
		return deleted_meanwhile(err);
	claim_snapshot_note_error(arg, content);
	return handle && *handle;
}

static int wait_for_handle(struct kube_client *client, const struct velero_request *request,
			   const json_t *made, struct velero_csi_snapshot *ret,
			   struct cairn_err *err)
{
	const struct kube_ref *snapshot =
		KUBE_REF(&kube_volumesnapshots, kube_namespace(made), kube_name(made));
	uint64_t deadline = velero_snapshot_deadline(request->owner);
	struct last_error last = {0};
	int rc = velero_watch_until(client, snapshot, &request->how, deadline, is_cut, &last,
				    &ret->snapshot, err);

	if (!rc)
		rc = velero_watch_until(client,
					KUBE_REF(&kube_volumesnapshotcontents, NULL,
						 kube_str(ret->snapshot, "status",
							  "boundVolumeSnapshotContentName")),
					&request->how, deadline, has_handle, &last, &ret->content,
					err);
	/* That of another backup would be deleted with this one. */
	if (!rc && !velero_content_is_of(ret->content, ret->snapshot))
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "its content is of another one");
	if (rc == CAIRN_DEADLINE && last.text[0])
		rc = cairn_err_set(err, CAIRN_DEADLINE, "not taken in time: %s", last.text);
	return rc ? cairn_err_wrap(err, "VolumeSnapshot %s/%s", kube_namespace(made),
				   kube_name(made))
		  : 0;
}

/* Labels the content with this backup, and lets it outlive its VolumeSnapshot. The manager believes
 * these labels, not those of the VolumeSnapshot. */
static int keep_content(struct kube_client *client, const struct velero_request *request,
			struct velero_csi_snapshot *of, struct cairn_err *err)
{
	const char *location = kube_str(request->owner, "spec", "storageLocation");
	const char *role = kube_label(of->snapshot, VELERO_LABEL_ROLE);
	char label[VELERO_LABEL_VALUE_MAX];
	kube_auto_json json_t *patch = NULL;
	json_t *now = NULL;
	int rc = velero_label_value(kube_name(request->owner), label, err);

	if (rc)
		return rc;
	patch = json_pack("{s:{s:{s:s, s:s*}, s:{s:s, s:s*}}, s:{s:s}}", "metadata", "labels",
			  VELERO_LABEL_BACKUP, label, VELERO_LABEL_ROLE, role, "annotations",
			  VELERO_ANNOTATION_SERVER, kube_namespace(request->owner),
			  VELERO_ANNOTATION_LOCATION, location, "spec", "deletionPolicy", "Retain");
	if (!patch)
		return cairn_err_nomem(err, "a patch");
	rc = kube_patch(client,
			KUBE_REF(&kube_volumesnapshotcontents, NULL, kube_name(of->content)),
			KUBE_PATCH_MERGE, patch, &request->how, &now, err);
	if (rc)
		return cairn_err_wrap(err, "label VolumeSnapshotContent %s",
				      kube_name(of->content));
	json_decref(of->content);
	of->content = now;
	return 0;
}

/* Sets the policy back to Delete, so that the storage snapshot is deleted too. */
static int discard_content(struct kube_client *client, const char *name,
			   const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *patch = json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete");

	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, name),
			  KUBE_PATCH_MERGE, patch, how, NULL, err);
}

/* Deletes what was created. Has its own timeout, because Velero may no longer be waiting. */
static void claim_snapshot_discard(struct kube_client *client, const json_t *made)
{
	const struct kube_call how = {.timeout_ms = CLEANUP_MS};
	const struct kube_ref *ref =
		KUBE_REF(&kube_volumesnapshots, kube_namespace(made), kube_name(made));
	kube_auto_json json_t *snapshot = NULL, *content = NULL;
	struct cairn_err err = {0};
	const char *name;
	int rc = kube_get(client, ref, &how, &snapshot, &err);

	name = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");
	if (!rc && name)
		rc = kube_get(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, name), &how,
			      &content, &err);
	if (!rc && content && velero_content_is_of(content, snapshot))
		rc = discard_content(client, name, &how, &err);
	if (!rc || rc == CAIRN_NOT_FOUND)
		rc = kube_delete(client, ref, NULL, &how, NULL, &err);
	if (rc && rc != CAIRN_NOT_FOUND)
		cairn_log(CAIRN_LOG_WARN, "a VolumeSnapshot of a failed backup is left",
			  CAIRN_STR("namespace", kube_namespace(made)),
			  CAIRN_STR("name", kube_name(made)), CAIRN_STR("error", err.msg));
}

/* Creates the VolumeSnapshot, or finds the one that an interrupted call created. */
static int create_snapshot(struct kube_client *client, const struct velero_request *request,
			   const struct velero_snapshot_wish *wish, json_t **ret,
			   struct cairn_err *err)
{
	const char *ns = kube_namespace(request->item);
	kube_auto_json json_t *object = NULL, *found = NULL;
	const char *claim, *role;
	int rc = velero_csi_snapshot_object(request->item, request->owner, wish, &object, err);

	if (!rc)
		rc = kube_create(client, KUBE_REF(&kube_volumesnapshots, ns, NULL), object,
				 &request->how, ret, err);
	if (rc != CAIRN_EXISTS || !wish->name)
		return rc;
	rc = kube_get(client, KUBE_REF(&kube_volumesnapshots, ns, wish->name), &request->how,
		      &found, err);
	if (rc)
		return rc;
	claim = kube_str(found, "spec", "source", "persistentVolumeClaimName");
	role = kube_label(found, VELERO_LABEL_ROLE);
	if (!claim || strcmp(claim, kube_name(request->item)) != 0 || !role ||
	    strcmp(role, wish->role) != 0)
		return cairn_err_set(err, CAIRN_EXISTS, "VolumeSnapshot %s/%s is of another kind",
				     ns, wish->name);
	*ret = cairn_take(found);
	return 0;
}

int velero_csi_snapshot_finish(const struct velero_request *request, const json_t *snapshot,
			       struct velero_csi_snapshot *ret, struct cairn_err *err)
{
	cairn_cleanup(velero_csi_snapshot_done) struct velero_csi_snapshot made = {0};
	struct kube_client *client;
	int rc = velero_world_client(request->world, &client, err);

	if (!rc)
		rc = wait_for_handle(client, request, snapshot, &made, err);
	if (!rc)
		rc = keep_content(client, request, &made, err);
	if (rc)
		return rc;
	*ret = made;
	made = (struct velero_csi_snapshot){0};
	return 0;
}

int velero_csi_snapshot_make(const struct velero_request *request,
			     const struct velero_snapshot_wish *wish,
			     struct velero_csi_snapshot *ret, struct cairn_err *err)
{
	kube_auto_json json_t *created = NULL;
	struct kube_client *client;
	int rc = velero_world_client(request->world, &client, err);

	if (!rc)
		rc = create_snapshot(client, request, wish, &created, err);
	if (rc)
		return cairn_err_wrap(err, "make a VolumeSnapshot");
	rc = velero_csi_snapshot_finish(request, created, ret, err);
	if (rc)
		claim_snapshot_discard(client, created);
	return rc;
}
