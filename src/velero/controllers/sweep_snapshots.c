/* SPDX-License-Identifier: Apache-2.0 */

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/content_discard.h"
#include "velero/controller.h"
#include "velero/controllers/sweep.h"
#include "velero/group_snapshot.h"
#include "velero/moved_backup.h"
#include "velero/velero_names.h"

/* The copy in the repository goes with the snapshot. The annotation is on the content, where users
 * of a namespace cannot write. */
static int sweep_copy(const struct velero_common *common, const json_t *content,
		      const struct kube_call *how, struct cairn_err *err)
{
	const char *text = kube_annotation(content, VELERO_ANNOTATION_MOVED);
	kube_auto_json json_t *request = NULL;
	struct velero_moved moved;
	int rc;

	if (!text || velero_moved_parse(text, &moved, NULL) != 0)
		return 0;
	rc = velero_forget_backup(common->ns, &moved, &request, err);
	if (!rc)
		rc = kube_create(common->client, KUBE_REF(&kube_configmaps, common->ns, NULL),
				 request, how, NULL, err);
	return rc == CAIRN_EXISTS ? 0 : rc;
}

/* The uid of the VolumeGroupSnapshot that it is part of; NULL: none. */
static const char *sweep_group_of(const json_t *snapshot)
{
	size_t i;
	json_t *owner;

	json_array_foreach(kube_at(snapshot, "metadata", "ownerReferences"), i, owner)
	{
		if (cairn_text_same(kube_str(owner, "kind"), "VolumeGroupSnapshot"))
			return kube_str(owner, "uid");
	}
	return NULL;
}

/* The content goes with its storage snapshot if it was kept for a backup, which its label says:
 * users of a namespace cannot write there. Else the policy stays that of the class: it would be
 * easy to have a snapshot deleted that the class retains. */
static int sweep_storage(const struct velero_common *common, const struct velero_swept *what,
			 const struct kube_call *how, struct cairn_err *err)
{
	int rc;

	if (!kube_label(what->content, VELERO_LABEL_BACKUP))
		return 0;
	rc = sweep_copy(common, what->content, how, err);
	return rc ? rc : velero_content_discard(common->client, what->content, how, err);
}

static int sweep_policy(const struct velero_common *common, const json_t *content,
			const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *patch = json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete");

	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(common->client,
			  KUBE_REF(&kube_volumesnapshotcontents, NULL, kube_name(content)),
			  KUBE_PATCH_MERGE, patch, how, NULL, err);
}

/* Deletes the VolumeSnapshot with its storage snapshot. */
static int sweep_snapshot(const struct velero_common *common, const struct velero_swept *what,
			  const struct kube_call *how, struct cairn_err *err)
{
	const json_t *snapshot = what->snapshot;
	const struct kube_delete_options only = {.uid = kube_uid(snapshot)};
	int rc;

	if (velero_group_has(what->content))
		return velero_group_discard(common->client, what->content, common->ns, how, err);
	/* Its group was not kept: velero_sweep_groups() deletes it. */
	if (sweep_group_of(snapshot))
		return kube_label(what->content, VELERO_LABEL_BACKUP)
			       ? sweep_policy(common, what->content, how, err)
			       : 0;
	rc = sweep_storage(common, what, how, err);
	if (!rc)
		rc = kube_delete(common->client,
				 KUBE_REF(&kube_volumesnapshots, kube_namespace(snapshot),
					  kube_name(snapshot)),
				 &only, how, NULL, err);
	if (rc == CAIRN_NOT_FOUND)
		rc = 0;
	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "snapshot of an interrupted backup deleted",
			  CAIRN_STR("namespace", kube_namespace(snapshot)),
			  CAIRN_STR("name", kube_name(snapshot)),
			  CAIRN_STR("backup",
				    kube_label(velero_swept_told(what), VELERO_LABEL_BACKUP)));
	return rc;
}

/* {name: content} of all contents that a plugin has kept: one request, however many backups
 * there are. */
static int sweep_contents(const struct velero_common *common, const struct kube_call *how,
			  json_t **ret, struct cairn_err *err)
{
	const struct kube_list_query query = {.label_selector = VELERO_LABEL_ROLE};
	kube_auto_json json_t *list = NULL, *named = json_object();
	size_t i;
	json_t *content;
	int rc = kube_list(common->client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL),
			   &query, how, &list, err);

	json_array_foreach(kube_at(list, "items"), i, content)
	{
		if (!rc && json_object_set(named, kube_name(content), content) != 0)
			rc = cairn_err_nomem(err, "contents");
	}
	if (!rc)
		*ret = cairn_take(named);
	return rc;
}

/* {name of its content: VolumeSnapshot}; NULL without memory. */
static json_t *sweep_by_content(const json_t *list)
{
	kube_auto_json json_t *named = json_object();
	size_t i;
	json_t *snapshot;
	bool failed = !named;

	json_array_foreach(kube_at(list, "items"), i, snapshot)
	{
		const char *name = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");

		if (!failed && name)
			failed = json_object_set(named, name, snapshot) != 0;
	}
	return failed ? NULL : cairn_take(named);
}

/* The VolumeSnapshot that the content was kept with, as far as the content tells. */
static json_t *sweep_former(const json_t *content)
{
	const json_t *ref = kube_at(content, "spec", "volumeSnapshotRef");

	return json_pack("{s:{s:s?, s:s?, s:s?, s:s?}, s:{s:s}}", "metadata", "name",
			 kube_str(ref, "name"), "namespace", kube_str(ref, "namespace"), "uid",
			 kube_str(ref, "uid"), "creationTimestamp",
			 kube_str(content, "metadata", "creationTimestamp"), "status",
			 "boundVolumeSnapshotContentName", kube_name(content));
}

/* Adds the VolumeSnapshots that went with their namespace, or that a user took the label from: their
 * contents and storage snapshots are still there. Those of groups stay: nothing tells which others
 * they are deleted with. */
static int sweep_add_former(json_t *list, const json_t *contents, struct cairn_err *err)
{
	kube_auto_json json_t *named = sweep_by_content(list);
	const char *name;
	json_t *content;
	int rc = named ? 0 : cairn_err_nomem(err, "snapshots");

	json_object_foreach((json_t *)(uintptr_t)contents, name, content)
	{
		const json_t *snapshot = json_object_get(named, name);

		if (rc || kube_is_deleted(content) || !kube_label(content, VELERO_LABEL_BACKUP) ||
		    velero_group_has(content) ||
		    kube_str(content, "status", "volumeGroupSnapshotHandle") ||
		    (snapshot && velero_content_is_of(content, snapshot)))
			continue;
		if (json_array_append_new(kube_at(list, "items"), sweep_former(content)) != 0)
			rc = cairn_err_nomem(err, "snapshots");
	}
	return rc;
}

/* With its content, unless that is of another one, or was not kept. */
static struct velero_swept sweep_view(const json_t *snapshot, const json_t *contents)
{
	const char *name = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");
	const json_t *content = name ? json_object_get(contents, name) : NULL;

	return (struct velero_swept){
		.snapshot = snapshot,
		.content = content && velero_content_is_of(content, snapshot) ? content : NULL};
}

/* The snapshots of a group are deleted only together: one that is needed keeps all. */
static int sweep_is_group_needed(const struct velero_common *common, const json_t *list,
				 const json_t *contents, const struct velero_swept *what,
				 const struct kube_call *how, bool *ret, struct cairn_err *err)
{
	const char *group = sweep_group_of(what->snapshot);
	size_t i;
	json_t *other;
	int rc = velero_sweep_is_needed(common, what, how, ret, err);

	if (!group)
		return rc;
	json_array_foreach(kube_at(list, "items"), i, other)
	{
		struct velero_swept member = sweep_view(other, contents);

		if (!rc && !*ret && other != what->snapshot &&
		    cairn_text_same(sweep_group_of(other), group))
			rc = velero_sweep_is_needed(common, &member, how, ret, err);
	}
	return rc;
}

int velero_sweep_snapshots(const struct velero_common *common, const struct kube_call *how,
			   struct cairn_err *err)
{
	const struct kube_list_query query = {.label_selector = VELERO_LABEL_ROLE};
	kube_auto_json json_t *list = NULL, *contents = NULL;
	int failed = 0;
	size_t i;
	json_t *snapshot;
	int rc = kube_list(common->client, KUBE_REF(&kube_volumesnapshots, NULL, NULL), &query, how,
			   &list, err);

	if (!rc)
		rc = sweep_contents(common, how, &contents, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = sweep_add_former(list, contents, err);
	if (rc)
		return rc;
	json_array_foreach(kube_at(list, "items"), i, snapshot)
	{
		struct cairn_err why = {0};
		struct velero_swept what = sweep_view(snapshot, contents);
		bool needed = true;

		rc = sweep_is_group_needed(common, list, contents, &what, how, &needed, &why);
		if (!rc && !needed)
			rc = sweep_snapshot(common, &what, how, &why);
		if (rc && !failed)
			failed = cairn_err_set(err, rc, "VolumeSnapshot %s: %s",
					       kube_name(snapshot), why.msg);
	}
	return failed;
}
