/* SPDX-License-Identifier: Apache-2.0 */

/* RestoreItemActions of VolumeSnapshots and VolumeSnapshotContents: the restored pair
 * refers to each other and to the storage snapshot, and to nothing of the cluster of the
 * backup. */

#include "velero/action.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "velero/claim_snapshot.h"
#include "velero/restore_rules.h"
#include "velero/velero_names.h"

/* Decides the simple cases: the object is not of this backup, or volumes are not restored. */
static int is_decided(const struct velero_request *request, struct velero_outcome *ret, bool *done,
		      struct cairn_err *err)
{
	bool ours = false;
	int rc = velero_is_of_restore(request->original, request->owner, &ours, err);

	if (rc)
		return rc;
	/* The object was in the namespace, but belongs to another backup. Restored
	 * unchanged, it would create a new snapshot of a claim that is still being
	 * restored. */
	ret->skip =
		!velero_restores_volumes(request->owner) || (!ours && !request->world->csi_enabled);
	*done = ret->skip || !ours;
	return 0;
}

/* Makes the backup the owner if the object is restored to the backup's namespace: owners
 * must be in the same one. */
static int snapshot_restore_own(struct velero_request *request, struct cairn_err *err)
{
	const char *ns =
		velero_restore_namespace(request->owner, kube_namespace(request->original));
	const char *name = kube_str(request->owner, "spec", "backupName");
	kube_auto_json json_t *backup = NULL;
	struct kube_client *client;
	int rc;

	if (strcmp(ns, kube_namespace(request->owner)) != 0)
		return 0;
	rc = velero_world_client(request->world, &client, err);
	if (!rc)
		rc = kube_get(client, KUBE_REF(&velero_backups, ns, name), &request->how, &backup,
			      err);
	if (rc)
		return cairn_err_wrap(err, "Backup %s", name);
	return velero_own_by_backup(request->item, name, kube_uid(backup), err);
}

static int rewrite_snapshot(struct velero_request *request, const char *name, struct cairn_err *err)
{
	const char *claim =
		kube_str(request->original, "spec", "source", "persistentVolumeClaimName");
	json_t *item = request->item;
	int rc = request->world->csi_enabled ? 0 : velero_clear_metadata(item, err);

	if (!rc)
		rc = kube_set(item, err, json_string(name), "metadata", "name");
	if (!rc && claim)
		rc = kube_set(item, err, json_string(claim), "metadata", "annotations",
			      VELERO_ANNOTATION_CLAIM);
	if (!rc)
		rc = kube_set(item, err,
			      json_pack("{s:{s:s}}", "source", "volumeSnapshotContentName", name),
			      "spec");
	kube_remove(item, "status");
	return rc ? rc : snapshot_restore_own(request, err);
}

int velero_snapshot_restore(struct velero_request *request, struct velero_outcome *ret,
			    struct cairn_err *err)
{
	const char *content =
		kube_str(request->original, "status", "boundVolumeSnapshotContentName");
	char name[VELERO_RESTORED_NAME_MAX];
	bool done = false;
	int rc = is_decided(request, ret, &done, err);

	if (rc || done)
		return rc;
	if (!content)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshot %s/%s has no content in the backup",
				     kube_namespace(request->original),
				     kube_name(request->original));
	rc = velero_restored_name(kube_uid(request->owner), kube_name(request->original), name,
				  err);
	if (!rc)
		rc = rewrite_snapshot(request, name, err);
	ret->changed = true;
	return rc ? rc
		  : velero_outcome_relate(ret, &kube_volumesnapshotcontents, NULL, content, err);
}

/* Keeps the annotations that name the secret with which the driver deletes the snapshot. */
static int keep_secret(json_t *item, const json_t *original, struct cairn_err *err)
{
	static const char *const kept[] = {VELERO_ANNOTATION_SECRET, VELERO_ANNOTATION_SECRET_NS};
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(kept) / sizeof(kept[0]); i++) {
		const char *value = kube_annotation(original, kept[i]);

		if (value)
			rc = kube_set(item, err, json_string(value), "metadata", "annotations",
				      kept[i]);
	}
	return rc;
}

/* Rewrites the content. Its policy is Retain, because the backup still needs the storage
 * snapshot when the restored objects are deleted. It has no class, because this cluster may
 * not have the same one. */
static int rewrite_content(struct velero_request *request, const char *name, const char *handle,
			   struct cairn_err *err)
{
	const json_t *ref = kube_at(request->original, "spec", "volumeSnapshotRef");
	const char *ns = kube_str(ref, "namespace");
	json_t *item = request->item;
	json_t *mode = kube_at(request->original, "spec", "sourceVolumeMode");
	const char *driver = kube_str(request->original, "spec", "driver");
	int rc = request->world->csi_enabled ? 0 : velero_clear_metadata(item, err);

	if (!ns || !driver)
		return cairn_err_set(
			err, CAIRN_INVALID,
			"VolumeSnapshotContent %s names no driver or no VolumeSnapshot",
			kube_name(request->original));
	if (!rc)
		rc = keep_secret(item, request->original, err);
	if (!rc)
		rc = kube_set(item, err, json_string(name), "metadata", "name");
	if (!rc)
		rc = kube_set(item, err,
			      json_pack("{s:s, s:s, s:{s:s}, s:O*, s:{s:s, s:s, s:s, s:s}}",
					"driver", driver, "deletionPolicy", "Retain", "source",
					"snapshotHandle", handle, "sourceVolumeMode", mode,
					"volumeSnapshotRef", "apiVersion",
					"snapshot.storage.k8s.io/v1", "kind",
					kube_volumesnapshots.kind, "namespace",
					velero_restore_namespace(request->owner, ns), "name", name),
			      "spec");
	kube_remove(item, "status");
	return rc;
}

int velero_content_restore(struct velero_request *request, struct velero_outcome *ret,
			   struct cairn_err *err)
{
	const char *handle = kube_str(request->original, "status", "snapshotHandle");
	const char *of = kube_str(request->original, "spec", "volumeSnapshotRef", "name");
	char name[VELERO_RESTORED_NAME_MAX];
	bool done = false;
	int rc = is_decided(request, ret, &done, err);

	if (rc || done)
		return rc;
	if (!handle || !of)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshotContent %s has no %s in the backup",
				     kube_name(request->original),
				     handle ? "VolumeSnapshot" : "snapshot handle");
	rc = velero_restored_name(kube_uid(request->owner), of, name, err);
	if (!rc)
		rc = rewrite_content(request, name, handle, err);
	ret->changed = true;
	return rc;
}
