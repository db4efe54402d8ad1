/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/group_snapshot.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/claim_snapshot.h"
#include "velero/velero_names.h"
#include "velero/watch_until.h"

#define MEMBER_PAUSE_MS 250U
#define GROUP_NAME_MAX  48

/* One call for one claim of a group; trees are owned. */
struct grouping {
	const struct velero_request *request;
	struct kube_client *client;
	const json_t *pv;
	const char *ns, *key, *group;
	struct velero_group_kinds kinds;
	char name[GROUP_NAME_MAX];
	uint64_t deadline_ns;
	json_t *classes, *made, *content;
};

static void grouping_done(struct grouping *g)
{
	json_decref(g->classes);
	json_decref(g->made);
	json_decref(g->content);
}

/* The selector takes all claims of the group: each must have a volume of this driver. */
static int group_check_members(const struct grouping *g, struct cairn_err *err)
{
	const char *driver = kube_str(g->pv, "spec", "csi", "driver");
	cairn_auto_free char *selector = cairn_printf("%s=%s", g->key, g->group);
	struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *claim;
	int rc = selector
			 ? kube_list(g->client, KUBE_REF(&kube_persistentvolumeclaims, g->ns, NULL),
				     &query, &g->request->how, &list, err)
			 : cairn_err_nomem(err, "a selector");

	json_array_foreach(kube_at(list, "items"), i, claim)
	{
		const char *volume = kube_str(claim, "spec", "volumeName");
		kube_auto_json json_t *pv = NULL;

		if (!rc && volume)
			rc = kube_get(g->client, KUBE_REF(&kube_persistentvolumes, NULL, volume),
				      &g->request->how, &pv, err);
		if (!rc && !cairn_text_same(kube_str(pv, "spec", "csi", "driver"), driver))
			rc = cairn_err_set(err, CAIRN_PRECONDITION,
					   "claim %s of the group has no volume of driver %s",
					   kube_name(claim), driver);
	}
	return rc;
}

static int group_object(const struct grouping *g, const char *class_name, json_t **ret,
			struct cairn_err *err)
{
	const char *location = kube_str(g->request->owner, "spec", "storageLocation");
	kube_auto_json json_t *object = kube_object_new(&g->kinds.snapshots, g->ns, g->name);
	char label[VELERO_LABEL_VALUE_MAX];
	int rc = object ? velero_label_value(kube_name(g->request->owner), label, err)
			: cairn_err_nomem(err, "a VolumeGroupSnapshot");

	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:s, s:s}", VELERO_LABEL_BACKUP, label, VELERO_LABEL_ROLE,
					VELERO_ROLE_ACTION),
			      "metadata", "labels");
	if (!rc && location)
		rc = kube_set(object, err, json_string(location), "metadata", "annotations",
			      VELERO_ANNOTATION_LOCATION);
	if (!rc)
		rc = kube_set(object, err, json_string(kube_namespace(g->request->owner)),
			      "metadata", "annotations", VELERO_ANNOTATION_SERVER);
	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:s, s:{s:{s:{s:s}}}}", "volumeGroupSnapshotClassName",
					class_name, "source", "selector", "matchLabels", g->key,
					g->group),
			      "spec");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

static int group_find_or_create(struct grouping *g, struct cairn_err *err)
{
	const struct kube_ref *ref = KUBE_REF(&g->kinds.snapshots, g->ns, g->name);
	kube_auto_json json_t *object = NULL;
	const json_t *class_object = NULL;
	int rc = kube_get(g->client, ref, &g->request->how, &g->made, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = velero_group_class_choose(g->classes, kube_str(g->pv, "spec", "csi", "driver"),
				       g->request->item, g->request->owner, &class_object, err);
	if (!rc)
		rc = group_check_members(g, err);
	if (!rc)
		rc = group_object(g, kube_name(class_object), &object, err);
	if (!rc)
		rc = kube_create(g->client, KUBE_REF(&g->kinds.snapshots, g->ns, NULL), object,
				 &g->request->how, &g->made, err);
	/* Another claim of the group was faster. */
	return rc == CAIRN_EXISTS ? kube_get(g->client, ref, &g->request->how, &g->made, err) : rc;
}

static int group_is_cut(const json_t *object, void *arg, struct cairn_err *err)
{
	const char *text = kube_str(object, "status", "error", "message");
	char *last = arg;

	if (!object || kube_is_deleted(object))
		return cairn_err_set(err, CAIRN_ABORTED, "it was deleted while the backup waited");
	if (text)
		snprintf(last, 200, "%s", text);
	return kube_str(object, "status", "boundVolumeGroupSnapshotContentName") &&
	       kube_str(object, "status", "creationTime");
}

bool velero_group_content_of(const json_t *content, const json_t *made)
{
	const json_t *ref = kube_at(content, "spec", "volumeGroupSnapshotRef");
	const char *uid = kube_str(ref, "uid");

	return cairn_text_same(kube_str(ref, "namespace"), kube_namespace(made)) &&
	       cairn_text_same(kube_str(ref, "name"), kube_name(made)) &&
	       (!uid || !*uid || cairn_text_same(uid, kube_uid(made)));
}

static int group_wait(struct grouping *g, struct cairn_err *err)
{
	char last[200] = "";
	kube_auto_json json_t *cut = NULL;
	int rc =
		velero_watch_until(g->client, KUBE_REF(&g->kinds.snapshots, g->ns, g->name),
				   &g->request->how, g->deadline_ns, group_is_cut, last, &cut, err);

	if (rc == CAIRN_DEADLINE && last[0])
		return cairn_err_set(err, rc, "not taken in time: %s", last);
	if (!rc)
		rc = kube_get(
			g->client,
			KUBE_REF(&g->kinds.contents, NULL,
				 kube_str(cut, "status", "boundVolumeGroupSnapshotContentName")),
			&g->request->how, &g->content, err);
	if (!rc && !velero_group_content_of(g->content, g->made))
		return cairn_err_set(err, CAIRN_PRECONDITION, "its content is of another one");
	return rc;
}

/* The handles of the group; *ret is the caller's, NULL while they are not known. */
static json_t *group_handles(const json_t *content)
{
	const char *handle = kube_str(content, "status", "volumeGroupSnapshotHandle");
	json_t *infos = kube_at(content, "status", "volumeSnapshotInfoList");
	kube_auto_json json_t *list = json_array();
	size_t i;
	json_t *info;

	if (!infos) /* v1beta1 */
		infos = kube_at(content, "status", "volumeSnapshotHandlePairList");
	json_array_append_new(list, handle ? json_string(handle) : NULL);
	json_array_foreach(infos, i, info)
	{
		json_array_append_new(list, json_copy(kube_at(info, "snapshotHandle")));
	}
	return handle && json_array_size(list) > 1 ? cairn_take(list) : NULL;
}

/* The VolumeSnapshot of the claim in the group; *ret is the caller's, NULL: not yet. */
static int group_member(const struct grouping *g, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i, j;
	json_t *snapshot, *owner;
	int rc = kube_list(g->client, KUBE_REF(&kube_volumesnapshots, g->ns, NULL), NULL,
			   &g->request->how, &list, err);

	json_array_foreach(kube_at(list, "items"), i, snapshot)
	{
		if (*ret || !cairn_text_same(kube_str(snapshot, "spec", "source",
						      "persistentVolumeClaimName"),
					     kube_name(g->request->item)))
			continue;
		json_array_foreach(kube_at(snapshot, "metadata", "ownerReferences"), j, owner)
		{
			if (!*ret && cairn_text_same(kube_str(owner, "uid"), kube_uid(g->made)))
				*ret = json_incref(snapshot);
		}
	}
	return rc;
}

/* Gives the VolumeSnapshot what those of single claims have. */
static int group_label(const struct grouping *g, const json_t *member, struct cairn_err *err)
{
	const char *location = kube_annotation(g->made, VELERO_ANNOTATION_LOCATION);
	char backup[VELERO_LABEL_VALUE_MAX], volume[VELERO_LABEL_VALUE_MAX];
	kube_auto_json json_t *patch = NULL;
	int rc = velero_label_value(kube_name(g->request->owner), backup, err);

	if (!rc)
		rc = velero_label_value(kube_name(g->pv), volume, err);
	if (rc)
		return rc;
	patch = json_pack("{s:{s:{s:s, s:s, s:s}, s:{s:s, s:s*}}}", "metadata", "labels",
			  VELERO_LABEL_BACKUP, backup, VELERO_LABEL_ROLE, VELERO_ROLE_ACTION,
			  VELERO_LABEL_PV, volume, "annotations", VELERO_ANNOTATION_SERVER,
			  kube_namespace(g->request->owner), VELERO_ANNOTATION_LOCATION, location);
	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(g->client, KUBE_REF(&kube_volumesnapshots, g->ns, kube_name(member)),
			  KUBE_PATCH_MERGE, patch, &g->request->how, NULL, err);
}

static int group_wait_member(const struct grouping *g, json_t **ret, struct cairn_err *err)
{
	for (;;) {
		int rc = group_member(g, ret, err);

		if (rc || *ret)
			return rc;
		if (cairn_monotonic_ns() > g->deadline_ns)
			return cairn_err_set(err, CAIRN_DEADLINE,
					     "the claim has no snapshot in it");
		cairn_sleep_ms(MEMBER_PAUSE_MS);
	}
}

/* Each snapshot's content names all of the group; the group's content outlives the namespace. Its
 * label comes last: it tells group_abandon() that a claim needs the group. */
static int group_keep(const struct grouping *g, struct velero_csi_snapshot *of,
		      struct cairn_err *err)
{
	const char *label = kube_label(of->content, VELERO_LABEL_BACKUP);
	kube_auto_json json_t *handles = group_handles(g->content);
	cairn_auto_free char *text = handles ? kube_json_text(handles, NULL) : NULL;
	kube_auto_json json_t *keep =
		json_pack("{s:{s:{s:s}}, s:{s:s}}", "metadata", "labels", VELERO_LABEL_BACKUP,
			  label ? label : "", "spec", "deletionPolicy", "Retain");
	kube_auto_json json_t *note = json_pack("{s:{s:{s:s}}}", "metadata", "annotations",
						VELERO_ANNOTATION_GROUP, text ? text : "");
	int rc;

	if (!text)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the group has no handles");
	rc = keep && note ? kube_patch(g->client,
				       KUBE_REF(&kube_volumesnapshotcontents, NULL,
						kube_name(of->content)),
				       KUBE_PATCH_MERGE, note, &g->request->how, NULL, err)
			  : cairn_err_nomem(err, "a patch");
	if (!rc)
		rc = kube_patch(g->client,
				KUBE_REF(&g->kinds.contents, NULL, kube_name(g->content)),
				KUBE_PATCH_MERGE, keep, &g->request->how, NULL, err);
	return rc;
}

static int group_take(struct grouping *g, struct velero_csi_snapshot *ret, struct cairn_err *err)
{
	kube_auto_json json_t *member = NULL;
	int rc = group_find_or_create(g, err);

	if (!rc)
		rc = group_wait(g, err);
	if (!rc)
		rc = group_wait_member(g, &member, err);
	if (!rc)
		rc = group_label(g, member, err);
	if (!rc)
		rc = velero_csi_snapshot_finish(g->request, member, ret, err);
	return rc ? rc : group_keep(g, ret, err);
}

/* The storage's group goes with its content, also if its class retains. An error if a claim needs
 * the group, or that is not known. */
static int group_release(const struct grouping *g, const char *name, const struct kube_call *how)
{
	const struct kube_ref *ref = KUBE_REF(&g->kinds.contents, NULL, name);
	kube_auto_json json_t *content = NULL, *patch = NULL;
	int rc = kube_get(g->client, ref, how, &content, NULL);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (!velero_group_content_of(content, g->made))
		return 0;
	if (kube_label(content, VELERO_LABEL_BACKUP))
		return CAIRN_EXISTS;
	patch = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "resourceVersion",
			  kube_resource_version(content), "spec", "deletionPolicy", "Delete");
	return patch ? kube_patch(g->client, ref, KUBE_PATCH_MERGE, patch, how, NULL, NULL)
		     : cairn_err_nomem(NULL, "a patch");
}

/* A group that is not kept yet goes as a whole; one that another claim needs stays. */
static void group_abandon(const struct grouping *g)
{
	const struct kube_call how = {.timeout_ms = 30000};
	const struct kube_ref *ref = KUBE_REF(&g->kinds.snapshots, g->ns, g->name);
	kube_auto_json json_t *now = NULL;
	const char *content;

	if (!g->made || kube_get(g->client, ref, &how, &now, NULL) != 0)
		return;
	content = kube_str(now, "status", "boundVolumeGroupSnapshotContentName");
	if (!content || group_release(g, content, &how) == 0)
		(void)kube_delete(g->client, ref, NULL, &how, NULL, NULL);
}

int velero_group_snapshot_make(const struct velero_request *request, const json_t *pv,
			       struct velero_csi_snapshot *ret, struct cairn_err *err)
{
	cairn_cleanup(grouping_done) struct grouping g = {
		.request = request,
		.pv = pv,
		.ns = kube_namespace(request->item),
		.deadline_ns = velero_snapshot_deadline(request->owner)};
	cairn_cleanup(velero_csi_snapshot_done) struct velero_csi_snapshot made = {0};
	char hex[VELERO_RESTORED_NAME_MAX];
	cairn_auto_free char *subject = NULL;
	int rc;

	g.group = velero_group_of(request->item, request->owner, &g.key);
	subject = cairn_printf("%s/%s/%s", g.ns, g.key, g.group ? g.group : "");
	rc = subject ? velero_restored_name(kube_uid(request->owner), subject, hex, err)
		     : cairn_err_nomem(err, "a name");
	if (!rc)
		rc = velero_world_client(request->world, &g.client, err);
	if (!rc)
		rc = velero_group_kinds(g.client, &request->how, &g.kinds, &g.classes, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? cairn_err_set(err, CAIRN_PRECONDITION,
							     "the cluster has no group snapshots")
					     : rc;
	snprintf(g.name, sizeof(g.name), "velero-%.40s", hex);
	rc = group_take(&g, &made, err);
	if (rc) {
		group_abandon(&g);
		return cairn_err_wrap(err, "VolumeGroupSnapshot %s/%s", g.ns, g.name);
	}
	*ret = made;
	made = (struct velero_csi_snapshot){0};
	return 0;
}
