/* SPDX-License-Identifier: Apache-2.0 */

/* BackupItemAction of PersistentVolumeClaims. */

#include "velero/action.h"

#include <inttypes.h>
#include <stdio.h>

#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/object.h"
#include "velero/backup_rules.h"
#include "velero/claim_snapshot.h"
#include "velero/group_snapshot.h"
#include "velero/snapshot_class.h"
#include "velero/velero_names.h"

/* Warns if a class that the user named is not used. */
static void warn_of_class(const json_t *claim, const struct velero_class_choice *choice)
{
	if (choice->missing)
		cairn_log(CAIRN_LOG_WARN,
			  "an annotation names a VolumeSnapshotClass that the driver does not have",
			  CAIRN_STR("namespace", kube_namespace(claim)),
			  CAIRN_STR("claim", kube_name(claim)),
			  CAIRN_STR("missing", choice->missing),
			  CAIRN_STR("class", kube_name(choice->class_object)));
}

static int choose_class(const struct velero_request *request, const json_t *pv, json_t **ret_list,
			struct velero_class_choice *ret, struct cairn_err *err)
{
	struct kube_client *client;
	int rc = velero_world_client(request->world, &client, err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_volumesnapshotclasses, NULL, NULL), NULL,
			       &request->how, ret_list, err);
	if (!rc)
		rc = velero_class_choose(*ret_list, kube_str(pv, "spec", "csi", "driver"),
					 request->item, request->owner, ret, err);
	return rc;
}

/* A claim that is created from the snapshot must not be smaller than it. */
static int raise_request(json_t *claim, const json_t *content, struct cairn_err *err)
{
	const char *asked = kube_str(claim, "spec", "resources", "requests", "storage");
	int64_t needed = 0;
	uint64_t has = 0;
	char text[32];

	if (!kube_i64(content, &needed, "status", "restoreSize") || needed <= 0)
		return 0;
	if (asked && (!backup_cluster_quantity(asked, &has) || has >= (uint64_t)needed))
		return 0;
	snprintf(text, sizeof(text), "%" PRId64, needed);
	return kube_set(claim, err, json_string(text), "spec", "resources", "requests", "storage");
}

/* Adds to the claim's copy in the backup where a restore finds the snapshot. */
static int mark_claim(json_t *claim, const struct velero_csi_snapshot *made, struct cairn_err *err)
{
	int rc = kube_set(claim, err, json_string(kube_name(made->snapshot)), "metadata", "labels",
			  VELERO_LABEL_SNAPSHOT);

	if (!rc)
		rc = kube_set(claim, err,
			      json_string(kube_label(made->snapshot, VELERO_LABEL_BACKUP)),
			      "metadata", "labels", VELERO_LABEL_BACKUP);
	if (!rc)
		rc = kube_set(claim, err, json_string("true"), "metadata", "annotations",
			      VELERO_ANNOTATION_INCLUDE);
	return rc ? rc : raise_request(claim, made->content, err);
}

static int claim_backup_relate(struct velero_outcome *ret, const struct velero_csi_snapshot *made,
			       const char *class_name, struct cairn_err *err)
{
	int rc = velero_outcome_relate(ret, &kube_volumesnapshots, kube_namespace(made->snapshot),
				       kube_name(made->snapshot), err);

	if (!rc)
		rc = velero_outcome_relate(ret, &kube_volumesnapshotcontents, NULL,
					   kube_name(made->content), err);
	if (rc || !*class_name) /* a snapshot of a group has none */
		return rc;
	return velero_outcome_relate(ret, &kube_volumesnapshotclasses, NULL, class_name, err);
}

/* Has the volume snapshotter taken a snapshot of the volume in this backup? Velero backs up
 * the volume of a claim before it calls this action. */
static int is_taken(const struct velero_request *request, const json_t *pv, bool *ret,
		    struct cairn_err *err)
{
	char name[VELERO_SNAPSHOTTER_NAME_MAX];
	struct kube_client *client;
	int rc = velero_snapshotter_name(request->owner, kube_name(pv), name, err);

	if (!rc)
		rc = velero_world_client(request->world, &client, err);
	if (!rc)
		rc = kube_get(client,
			      KUBE_REF(&kube_volumesnapshots, kube_namespace(request->item), name),
			      &request->how, NULL, err);
	*ret = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* Takes the snapshot; *ret_class is the name of its class, "" for one of a group. */
static int take_claim(const struct velero_request *request, const json_t *pv, json_t **ret_classes,
		      const char **ret_class, struct velero_csi_snapshot *ret,
		      struct cairn_err *err)
{
	struct velero_class_choice choice = {0};
	const char *key;
	int rc;

	*ret_class = "";
	if (velero_group_of(request->item, request->owner, &key))
		return velero_group_snapshot_make(request, pv, ret, err);
	rc = choose_class(request, pv, ret_classes, &choice, err);
	if (rc)
		return rc;
	*ret_class = kube_name(choice.class_object);
	warn_of_class(request->item, &choice);
	return velero_csi_snapshot_make(
		request,
		&(const struct velero_snapshot_wish){.class_name = *ret_class,
						     .role = VELERO_ROLE_ACTION,
						     .volume = kube_name(pv)},
		ret, err);
}

int velero_claim_backup(struct velero_request *request, struct velero_outcome *ret,
			struct cairn_err *err)
{
	cairn_cleanup(velero_csi_snapshot_done) struct velero_csi_snapshot made = {0};
	kube_auto_json json_t *pv = NULL, *classes = NULL;
	const char *class_name;
	bool taken = false;
	int rc = velero_wants_snapshot(request, &pv, err);

	if (rc || !pv)
		return rc;
	rc = is_taken(request, pv, &taken, err);
	if (rc || taken)
		return rc;
	rc = take_claim(request, pv, &classes, &class_name, &made, err);
	if (!rc)
		rc = mark_claim(request->item, &made, err);
	if (!rc)
		rc = claim_backup_relate(ret, &made, class_name, err);
	if (rc)
		return rc;
	ret->changed = true;
	cairn_log(CAIRN_LOG_INFO, "snapshot taken",
		  CAIRN_STR("namespace", kube_namespace(request->item)),
		  CAIRN_STR("claim", kube_name(request->item)),
		  CAIRN_STR("snapshot", kube_name(made.snapshot)), CAIRN_STR("class", class_name));
	return 0;
}
