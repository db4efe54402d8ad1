/* SPDX-License-Identifier: Apache-2.0 */

/* RestoreItemActions of PersistentVolumeClaims and PersistentVolumes: a claim whose
 * snapshot is in the backup is created from that snapshot instead of being bound to its old
 * volume. */

#include "velero/action.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "velero/restore_rules.h"
#include "velero/velero_names.h"

/* Annotations from the binding to the old volume, and from actions of the backup. */
static const char *const stale_annotations[] = {
	"pv.kubernetes.io/bind-completed",
	"pv.kubernetes.io/bound-by-controller",
	"volume.kubernetes.io/selected-node",
	"volume.kubernetes.io/storage-provisioner",
	"volume.beta.kubernetes.io/storage-provisioner",
	VELERO_ANNOTATION_INCLUDE,
};

static void forget_volume(json_t *claim)
{
	for (size_t i = 0; i < sizeof(stale_annotations) / sizeof(stale_annotations[0]); i++)
		kube_remove(claim, "metadata", "annotations", stale_annotations[i]);
	kube_remove(claim, "spec", "volumeName");
	kube_remove(claim, "spec", "dataSource");
	kube_remove(claim, "spec", "dataSourceRef");
}

/* True if Velero's own actions created the snapshot, or moved its data, and restore it. */
static bool is_others(const struct velero_request *request)
{
	bool by_velero = kube_annotation(request->original, VELERO_ANNOTATION_SNAPSHOT) != NULL;

	return (by_velero && request->world->csi_enabled) ||
	       kube_annotation(request->original, "velero.io/data-upload-name");
}

static int set_source(json_t *claim, const char *name, struct cairn_err *err)
{
	return kube_set(claim, err,
			json_pack("{s:s, s:s, s:s}", "apiGroup", kube_volumesnapshots.group, "kind",
				  kube_volumesnapshots.kind, "name", name),
			"spec", "dataSource");
}

int velero_claim_restore(struct velero_request *request, struct velero_outcome *ret,
			 struct cairn_err *err)
{
	const char *snapshot = kube_label(request->original, VELERO_LABEL_SNAPSHOT);
	char name[VELERO_RESTORED_NAME_MAX];
	bool ours = false;
	int rc = velero_is_of_restore(request->original, request->owner, &ours, err);

	/* Without a snapshot in this backup, the labels are left over from an earlier restore. */
	if (rc || !ours || !snapshot || is_others(request))
		return rc;
	forget_volume(request->item);
	ret->changed = true;
	if (!velero_restores_volumes(request->owner))
		return 0;
	rc = velero_restored_name(kube_uid(request->owner), snapshot, name, err);
	if (!rc)
		rc = set_source(request->item, name, err);
	return rc ? rc
		  : velero_outcome_relate(ret, &kube_volumesnapshots,
					  kube_namespace(request->original), snapshot, err);
}

/* True if the list contains a restored VolumeSnapshot of that claim. */
static bool claim_restore_has_snapshot(const json_t *list, const char *claim)
{
	size_t i;
	json_t *snapshot;

	json_array_foreach(kube_at(list, "items"), i, snapshot)
	{
		const char *of = kube_annotation(snapshot, VELERO_ANNOTATION_CLAIM);

		if (of && strcmp(of, claim) == 0)
			return true;
	}
	return false;
}

/* Velero would restore a volume with reclaim policy Retain as it was. The claim would then
 * be bound to it, and have its current data instead of the backup's. */
int velero_volume_restore(struct velero_request *request, struct velero_outcome *ret,
			  struct cairn_err *err)
{
	const char *claim = kube_str(request->original, "spec", "claimRef", "name");
	const char *ns = kube_str(request->original, "spec", "claimRef", "namespace");
	kube_auto_json json_t *snapshots = NULL;
	char label[VELERO_LABEL_VALUE_MAX];
	char selector[sizeof(VELERO_LABEL_RESTORE) + 1 + VELERO_LABEL_VALUE_MAX];
	struct kube_list_query query = {.label_selector = selector};
	struct kube_client *client;
	int rc;

	if (!kube_str(request->original, "spec", "csi", "driver") || !claim || !ns ||
	    !velero_restores_volumes(request->owner))
		return 0;
	rc = velero_label_value(kube_name(request->owner), label, err);
	if (!rc)
		rc = velero_world_client(request->world, &client, err);
	if (rc)
		return rc;
	snprintf(selector, sizeof(selector), "%s=%s", VELERO_LABEL_RESTORE, label);
	rc = kube_list(
		client,
		KUBE_REF(&kube_volumesnapshots, velero_restore_namespace(request->owner, ns), NULL),
		&query, &request->how, &snapshots, err);
	/* A cluster without the CRDs has no snapshots to restore from. */
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
		return cairn_err_wrap(err, "VolumeSnapshots of namespace %s",
				      velero_restore_namespace(request->owner, ns));
	ret->skip = claim_restore_has_snapshot(snapshots, claim);
	return 0;
}
