/* SPDX-License-Identifier: Apache-2.0 */

/* VolumeGroupSnapshots of plugins that were killed before a claim had kept the group: no backup
 * has them. Kept ones go with the VolumeSnapshots of their claims. */

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/controller.h"
#include "velero/controllers/sweep.h"
#include "velero/group_snapshot.h"
#include "velero/velero_names.h"

/* Does a claim's snapshot in a backup need the group? */
static int group_is_kept(const struct velero_common *common, const json_t *group,
			 const struct velero_group_kinds *kinds, const struct kube_call *how,
			 bool *ret, struct cairn_err *err)
{
	const char *name = kube_str(group, "status", "boundVolumeGroupSnapshotContentName");
	kube_auto_json json_t *content = NULL;
	int rc = name ? kube_get(common->client, KUBE_REF(&kinds->contents, NULL, name), how,
				 &content, err)
		      : 0;

	*ret = velero_group_content_of(content, group) && kube_label(content, VELERO_LABEL_BACKUP);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* Without a change of policy, which is that of the class: sweep_snapshots.c has the reason. */
static int sweep_unkept(const struct velero_common *common, const json_t *group,
			const struct velero_group_kinds *kinds, const struct kube_call *how,
			struct cairn_err *err)
{
	const struct kube_delete_options only = {.uid = kube_uid(group)};
	kube_auto_json json_t *backup = NULL;
	bool may = false, kept = true;
	int rc;

	if (kube_is_deleted(group) ||
	    !velero_sweep_is_old(group, cairn_now_ns(), common->period_ms))
		return 0;
	rc = velero_sweep_backup(common, group, &backup, &may, err);
	if (!rc && may)
		rc = group_is_kept(common, group, kinds, how, &kept, err);
	if (rc || !may || kept)
		return rc;
	rc = kube_delete(common->client,
			 KUBE_REF(&kinds->snapshots, kube_namespace(group), kube_name(group)),
			 &only, how, NULL, err);
	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "group snapshot of an interrupted backup deleted",
			  CAIRN_STR("namespace", kube_namespace(group)),
			  CAIRN_STR("name", kube_name(group)));
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int velero_sweep_groups(const struct velero_common *common, const struct kube_call *how,
			struct cairn_err *err)
{
	const struct kube_list_query query = {.label_selector = VELERO_LABEL_ROLE};
	struct velero_group_kinds kinds;
	kube_auto_json json_t *classes = NULL, *list = NULL;
	int failed = 0;
	size_t i;
	json_t *group;
	int rc = velero_group_kinds(common->client, how, &kinds, &classes, err);

	if (!rc)
		rc = kube_list(common->client, KUBE_REF(&kinds.snapshots, NULL, NULL), &query, how,
			       &list, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	json_array_foreach(kube_at(list, "items"), i, group)
	{
		struct cairn_err why = {0};

		rc = sweep_unkept(common, group, &kinds, how, &why);
		if (rc && !failed)
			failed = cairn_err_set(err, rc, "VolumeGroupSnapshot %s: %s",
					       kube_name(group), why.msg);
	}
	return failed;
}
