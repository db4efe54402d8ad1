/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a request is what it claims to be. */

#include <string.h>

#include "base/err.h"
#include "kube/object.h"
#include "velero/mover/mover_impl.h"
#include "velero/velero_names.h"

void mover_found_done(struct mover_found *found)
{
	json_decref(found->snapshot);
	json_decref(found->content);
	json_decref(found->claim);
	json_decref(found->volume);
	*found = (struct mover_found){0};
}

static bool check_same(const char *a, const char *b)
{
	return a && b && *a && strcmp(a, b) == 0;
}

/* Reads an object that must exist. */
static int check_get(struct mover_job *job, const struct kube_resource *resource, const char *ns,
		     const char *name, json_t **ret, struct cairn_err *err)
{
	int rc = mover_get(job, resource, ns, name, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	return cairn_err_set(err, CAIRN_PRECONDITION, "there is no %s '%s%s%s'", resource->kind,
			     ns ? ns : "", ns ? "/" : "", name);
}

static int check_backup(struct mover_job *job, const struct mover_upload *upload,
			const json_t *snapshot, struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX];
	kube_auto_json json_t *backup = NULL;
	int rc = check_get(job, &velero_backups, upload->ns, upload->backup, &backup, err);

	if (!rc)
		rc = velero_label_value(upload->backup, label, err);
	if (rc)
		return rc;
	if (!check_same(kube_uid(backup), upload->backup_uid))
		return cairn_err_set(err, CAIRN_PRECONDITION, "Backup '%s' is another one",
				     upload->backup);
	if (!check_same(kube_label(snapshot, VELERO_LABEL_BACKUP), label))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshot '%s/%s' is not of Backup '%s'",
				     upload->source_ns, upload->snapshot, upload->backup);
	/* The snapshot of a Backup that moves nothing is the backup itself: it stays. */
	if (!upload->keep && !kube_is(backup, "spec", "snapshotMoveData"))
		return cairn_err_set(err, CAIRN_PRECONDITION, "Backup '%s' moves no data",
				     upload->backup);
	return 0;
}

/* A VolumeSnapshot can import any handle. Only one that the driver cut of the claim's own
 * volume is moved, else the data of another namespace would reach this one's repository. */
static int check_source(const struct mover_upload *upload, const struct mover_found *found,
			struct cairn_err *err)
{
	const char *of = kube_str(found->content, "spec", "source", "volumeHandle");
	const char *handle = kube_str(found->volume, "spec", "csi", "volumeHandle");
	const char *driver = kube_str(found->volume, "spec", "csi", "driver");

	if (!check_same(kube_str(found->content, "spec", "volumeSnapshotRef", "uid"),
			kube_uid(found->snapshot)) ||
	    !check_same(kube_str(found->snapshot, "spec", "source", "persistentVolumeClaimName"),
			upload->claim) ||
	    !check_same(of, handle) ||
	    !check_same(kube_str(found->content, "spec", "driver"), driver) ||
	    !check_same(kube_str(found->volume, "spec", "claimRef", "uid"), kube_uid(found->claim)))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshot '%s/%s' is not of the volume of claim '%s'",
				     upload->source_ns, upload->snapshot, upload->claim);
	return 0;
}

static int check_claim(struct mover_job *job, const struct mover_upload *upload,
		       struct mover_found *found, struct cairn_err *err)
{
	const char *volume;
	int rc = check_get(job, &kube_persistentvolumeclaims, upload->source_ns, upload->claim,
			   &found->claim, err);

	volume = rc ? NULL : kube_str(found->claim, "spec", "volumeName");
	if (!rc && !volume)
		return cairn_err_set(err, CAIRN_PRECONDITION, "claim '%s/%s' has no volume",
				     upload->source_ns, upload->claim);
	return rc ? rc : check_get(job, &kube_persistentvolumes, NULL, volume, &found->volume, err);
}

/* True when the snapshot has a handle and can be read. */
static bool check_is_ready(const struct mover_found *found)
{
	return kube_is(found->snapshot, "status", "readyToUse") &&
	       kube_str(found->content, "status", "snapshotHandle");
}

int mover_check_upload(struct mover_job *job, const struct mover_upload *upload,
		       struct mover_found *ret, bool *ret_ready, struct cairn_err *err)
{
	const char *content;
	int rc = check_get(job, &kube_volumesnapshots, upload->source_ns, upload->snapshot,
			   &ret->snapshot, err);

	*ret_ready = false;
	if (!rc)
		rc = check_backup(job, upload, ret->snapshot, err);
	if (!rc)
		rc = check_claim(job, upload, ret, err);
	content = rc ? NULL : kube_str(ret->snapshot, "status", "boundVolumeSnapshotContentName");
	if (rc || !content)
		return rc;
	rc = check_get(job, &kube_volumesnapshotcontents, NULL, content, &ret->content, err);
	if (!rc)
		rc = check_source(upload, ret, err);
	if (!rc)
		*ret_ready = check_is_ready(ret);
	return rc;
}

/* --- what an upload leaves --- */

/* Only the API server's answer that there is no such Backup means that it is gone. */
static int leftover_of_backup(struct mover_job *job, const struct mover_upload *upload, bool *ret,
			      struct cairn_err *err)
{
	kube_auto_json json_t *backup = NULL;
	int rc = mover_get(job, &velero_backups, upload->ns, upload->backup, &backup, err);

	*ret = rc == CAIRN_NOT_FOUND || (!rc && check_same(kube_uid(backup), upload->backup_uid) &&
					 kube_is(backup, "spec", "snapshotMoveData"));
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* A snapshot with a role is a backup of the plugin's; one that was not cut of a claim is imported. */
static int leftover_is_cut(const struct mover_upload *upload, const struct mover_found *found,
			   bool *ret, struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX];
	int rc = velero_label_value(upload->backup, label, err);

	if (rc)
		return rc;
	*ret = check_same(kube_label(found->snapshot, VELERO_LABEL_BACKUP), label) &&
	       check_same(kube_str(found->snapshot, "spec", "source", "persistentVolumeClaimName"),
			  upload->claim) &&
	       !kube_label(found->snapshot, VELERO_LABEL_ROLE);
	if (found->content)
		*ret = *ret && !kube_label(found->content, VELERO_LABEL_ROLE) &&
		       kube_str(found->content, "spec", "source", "volumeHandle") &&
		       check_same(kube_str(found->content, "spec", "volumeSnapshotRef", "uid"),
				  kube_uid(found->snapshot));
	return 0;
}

int mover_check_leftover(struct mover_job *job, const struct mover_upload *upload,
			 struct mover_found *ret, bool *ret_left, struct cairn_err *err)
{
	const char *content;
	int rc = mover_get(job, &kube_volumesnapshots, upload->source_ns, upload->snapshot,
			   &ret->snapshot, err);

	*ret_left = false;
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	content = kube_str(ret->snapshot, "status", "boundVolumeSnapshotContentName");
	if (content)
		rc = mover_get(job, &kube_volumesnapshotcontents, NULL, content, &ret->content,
			       err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	rc = leftover_is_cut(upload, ret, ret_left, err);
	return rc || !*ret_left ? rc : leftover_of_backup(job, upload, ret_left, err);
}

/* --- downloads --- */

/* A volume of the volume snapshotter is restored to a claim in Velero's namespace first. */
static bool check_is_own(const struct mover_job *job, const struct mover_download *download)
{
	return check_same(download->target_ns, job->mover->ns);
}

int mover_check_restore(struct mover_job *job, const struct mover_download *download,
			struct cairn_err *err)
{
	kube_auto_json json_t *restore = NULL;
	const char *mapped;
	int rc = check_get(job, &velero_restores, download->ns, download->restore, &restore, err);

	if (rc)
		return rc;
	mapped = kube_str(restore, "spec", "namespaceMapping", download->source_ns);
	if (!check_same(kube_uid(restore), download->restore_uid))
		return cairn_err_set(err, CAIRN_PRECONDITION, "Restore '%s' is another one",
				     download->restore);
	if (!check_is_own(job, download) &&
	    !check_same(mapped ? mapped : download->source_ns, download->target_ns))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "Restore '%s' does not restore namespace '%s' to '%s'",
				     download->restore, download->source_ns, download->target_ns);
	return 0;
}

static int check_target(const struct mover_job *job, const struct mover_download *download,
			const json_t *claim, struct cairn_err *err)
{
	if (kube_str(claim, "spec", "volumeName"))
		return cairn_err_set(err, CAIRN_PRECONDITION, "claim '%s/%s' has a volume already",
				     download->target_ns, download->claim);
	if (!kube_str(claim, "spec", "selector", "matchLabels", VELERO_LABEL_RESTORED) ||
	    (check_is_own(job, download) &&
	     !check_same(kube_label(claim, VELERO_LABEL_ROLE), VELERO_ROLE_RESTORE)))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "claim '%s/%s' does not wait for a restored volume",
				     download->target_ns, download->claim);
	return 0;
}

int mover_check_download(struct mover_job *job, const struct mover_download *download, json_t **ret,
			 struct cairn_err *err)
{
	kube_auto_json json_t *claim = NULL;
	int rc = mover_check_restore(job, download, err);

	*ret = NULL;
	if (!rc)
		rc = mover_get(job, &kube_persistentvolumeclaims, download->target_ns,
			       download->claim, &claim, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc; /* Velero makes it after the request */
	rc = check_target(job, download, claim, err);
	if (!rc)
		*ret = cairn_take(claim);
	return rc;
}
