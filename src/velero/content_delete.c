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
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/object.h"
#include "velero/backup_rules.h"
#include "velero/velero_names.h"
#include "velero/watch_until.h"

#define GONE_MS 60000U /* time for the driver to delete a snapshot */

static const char *content_delete_handle_of(const json_t *content)
{
	const char *handle = kube_str(content, "status", "snapshotHandle");

	return handle ? handle : kube_str(content, "spec", "source", "snapshotHandle");
}

static bool content_delete_same_text(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static int content_delete_is_gone(const json_t *object, void *arg, struct cairn_err *err)
{
	(void)arg;
	(void)err;
	return object == NULL;
}

/* Deletes the VolumeSnapshot if it and the content name each other. */
static int delete_snapshot(const struct velero_request *request, struct kube_client *client,
			   const json_t *content, struct cairn_err *err)
{
	const json_t *ref = kube_at(content, "spec", "volumeSnapshotRef");
	const char *ns = kube_str(ref, "namespace"), *name = kube_str(ref, "name");
	kube_auto_json json_t *snapshot = NULL;
	int rc;

	if (!ns || !name)
		return 0;
	rc = kube_get(client, KUBE_REF(&kube_volumesnapshots, ns, name), &request->how, &snapshot,
		      err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (!content_delete_same_text(
		    kube_str(snapshot, "status", "boundVolumeSnapshotContentName"),
		    kube_name(content)) &&
	    !content_delete_same_text(
		    kube_str(snapshot, "spec", "source", "volumeSnapshotContentName"),
		    kube_name(content)))
		return 0;
	const struct kube_delete_options only = {.uid = kube_uid(snapshot)};

	rc = kube_delete(client, KUBE_REF(&kube_volumesnapshots, ns, name), &only, &request->how,
			 NULL, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int set_policy(const struct velero_request *request, struct kube_client *client,
		      const struct kube_ref *ref, struct cairn_err *err)
{
	kube_auto_json json_t *patch = json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete");

	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(client, ref, KUBE_PATCH_MERGE, patch, &request->how, NULL, err);
}

static int delete_content(const struct velero_request *request, struct kube_client *client,
			  const json_t *content, struct cairn_err *err)
{
	const struct kube_ref *ref =
		KUBE_REF(&kube_volumesnapshotcontents, NULL, kube_name(content));
	uint64_t deadline = cairn_monotonic_ns() + GONE_MS * CAIRN_NS_PER_MS;
	int rc = set_policy(request, client, ref, err);

	if (!rc)
		rc = delete_snapshot(request, client, content, err);
	if (!rc)
		rc = kube_delete(client, ref, NULL, &request->how, NULL, err);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (!rc)
		rc = velero_watch_until(client, ref, &request->how, deadline,
					content_delete_is_gone, NULL, NULL, err);
	return rc ? cairn_err_wrap(err, "delete VolumeSnapshotContent %s", kube_name(content)) : 0;
}

/* Deletes the contents of this backup that refer to the same storage snapshot. */
static int delete_all(const struct velero_request *request, struct kube_client *client,
		      const json_t *list, struct cairn_err *err)
{
	size_t i;
	json_t *content;

	json_array_foreach(kube_at(list, "items"), i, content)
	{
		int rc;

		if (!content_delete_same_text(content_delete_handle_of(content),
					      content_delete_handle_of(request->item)) ||
		    !content_delete_same_text(kube_str(content, "spec", "driver"),
					      kube_str(request->item, "spec", "driver")))
			continue;
		rc = delete_content(request, client, content, err);
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
	snprintf(selector, sizeof(selector), "%s=%s", VELERO_LABEL_BACKUP, label);
	rc = kube_list(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), &query,
		       &request->how, &list, err);
	return rc ? rc : delete_all(request, client, list, err);
}
