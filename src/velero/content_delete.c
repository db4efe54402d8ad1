/* SPDX-License-Identifier: Apache-2.0 */

/* DeleteItemAction of VolumeSnapshotContents. When a backup is deleted, this deletes the
 * contents of its snapshots that are in the cluster, including those of restores, and their
 * VolumeSnapshots.
 *
 * Their policy is Retain and is set to Delete first, so that the storage snapshot is deleted
 * too. If no content is left in the cluster, Velero's own action, which runs before this
 * one and cannot be disabled, has the storage snapshot deleted through a content that it
 * creates. */

#include "velero/action.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/backup_rules.h"
#include "velero/content_discard.h"
#include "velero/group_snapshot.h"
#include "velero/velero_names.h"

/* Deletes the contents of this backup that refer to the same storage snapshot. */
static int delete_all(const struct velero_request *request, struct kube_client *client,
		      const json_t *list, struct cairn_err *err)
{
	size_t i;
	json_t *content;

	json_array_foreach(kube_at(list, "items"), i, content)
	{
		int rc;

		if (!cairn_text_same(velero_content_handle(content),
				     velero_content_handle(request->item)) ||
		    !cairn_text_same(kube_str(content, "spec", "driver"),
				     kube_str(request->item, "spec", "driver")))
			continue;
		rc = velero_content_discard(client, content, &request->how, err);
		if (rc)
			return rc;
		cairn_log(CAIRN_LOG_INFO, "snapshot deleted",
			  CAIRN_STR("content", kube_name(content)));
	}
	return 0;
}

int velero_content_delete(struct velero_request *request, struct velero_outcome *ret,
			  struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX];
	char selector[sizeof(VELERO_LABEL_BACKUP) + 1 + VELERO_LABEL_VALUE_MAX];
	const struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *list = NULL;
	struct kube_client *client;
	bool ours = false;
	int rc = velero_is_of_backup(request->item, kube_name(request->owner), &ours, err);

	(void)ret;
	if (rc || !ours)
		return rc;
	rc = velero_label_value(kube_name(request->owner), label, err);
	if (!rc)
		rc = velero_world_client(request->world, &client, err);
	if (rc)
		return rc;
	if (velero_group_has(request->item))
		return velero_group_discard(client, request->item, request->world->ns,
					    &request->how, err);
	snprintf(selector, sizeof(selector), "%s=%s", VELERO_LABEL_BACKUP, label);
	rc = kube_list(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), &query,
		       &request->how, &list, err);
	return rc ? rc : delete_all(request, client, list, err);
}
