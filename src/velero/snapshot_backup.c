/* SPDX-License-Identifier: Apache-2.0 */

/* BackupItemActions of VolumeSnapshots and VolumeSnapshotContents that belong to the
 * backup: each adds the objects that are needed to restore or delete it. */

#include "velero/action.h"

#include "base/err.h"
#include "kube/object.h"
#include "velero/backup_rules.h"
#include "velero/velero_names.h"

/* *ret is false for objects of another backup, and in the last phases of a backup. */
static int snapshot_backup_concerns(const struct velero_request *request, bool *ret,
				    struct cairn_err *err)
{
	if (velero_backup_is_final(request->owner)) {
		*ret = false;
		return 0;
	}
	return velero_is_of_backup(request->item, kube_name(request->owner), ret, err);
}

static int include_related(struct velero_request *request, struct velero_outcome *ret,
			   struct cairn_err *err)
{
	ret->changed = true;
	return kube_set(request->item, err, json_string("true"), "metadata", "annotations",
			VELERO_ANNOTATION_INCLUDE);
}

int velero_snapshot_backup(struct velero_request *request, struct velero_outcome *ret,
			   struct cairn_err *err)
{
	const char *content = kube_str(request->item, "status", "boundVolumeSnapshotContentName");
	const char *class_name = kube_str(request->item, "spec", "volumeSnapshotClassName");
	bool ours = false;
	int rc = snapshot_backup_concerns(request, &ours, err);

	if (rc || !ours)
		return rc;
	if (!content)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshot %s/%s of this backup has no content",
				     kube_namespace(request->item), kube_name(request->item));
	rc = velero_outcome_relate(ret, &kube_volumesnapshotcontents, NULL, content, err);
	if (!rc && class_name)
		rc = velero_outcome_relate(ret, &kube_volumesnapshotclasses, NULL, class_name, err);
	return rc ? rc : include_related(request, ret, err);
}

int velero_content_backup(struct velero_request *request, struct velero_outcome *ret,
			  struct cairn_err *err)
{
	const char *secret = kube_annotation(request->item, VELERO_ANNOTATION_SECRET);
	const char *ns = kube_annotation(request->item, VELERO_ANNOTATION_SECRET_NS);
	bool ours = false;
	int rc = snapshot_backup_concerns(request, &ours, err);

	if (rc || !ours || !secret || !ns)
		return rc;
	rc = velero_outcome_relate(ret, &kube_secrets, ns, secret, err);
	return rc ? rc : include_related(request, ret, err);
}
