/* SPDX-License-Identifier: Apache-2.0 */

#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "velero/content_discard.h"
#include "velero/controller.h"
#include "velero/controllers/sweep.h"
#include "velero/snapshotter.h"
#include "velero/velero_names.h"

struct sweeping {
	const struct velero_common *common;
	const struct kube_call *how;
	json_t *volumes;    /* all PersistentVolumes; NULL: not read yet */
	uint64_t before_ns; /* what was created later may belong to a Restore that runs */
};

static int delete_object(const struct sweeping *s, const struct kube_resource *resource,
			 const json_t *object, struct cairn_err *err)
{
	const struct kube_delete_options only = {.uid = kube_uid(object)};
	const char *ns = resource->namespaced ? kube_namespace(object) : NULL;
	int rc = kube_delete(s->common->client, KUBE_REF(resource, ns, kube_name(object)), &only,
			     s->how, NULL, err);

	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* The policy of a content says what is to become of the storage snapshot: that of a restore is
 * Retain, that of a deletion Delete. */
static int sweep_content(struct sweeping *s, const json_t *content, struct cairn_err *err)
{
	if (cairn_text_same(kube_label(content, VELERO_LABEL_ROLE), VELERO_ROLE_DELETE))
		return velero_content_discard(s->common->client, content, s->how, err);
	return delete_object(s, &kube_volumesnapshotcontents, content, err);
}

static int sweep_import(struct sweeping *s, const json_t *snapshot, struct cairn_err *err)
{
	return delete_object(s, &kube_volumesnapshots, snapshot, err);
}

static int sweep_claim(struct sweeping *s, const json_t *claim, struct cairn_err *err)
{
	return delete_object(s, &kube_persistentvolumeclaims, claim, err);
}

/* Does another PersistentVolume stand for the same volume of the storage? */
static bool volume_has_another(const json_t *volumes, const json_t *pv)
{
	size_t i;
	json_t *other;

	json_array_foreach(kube_at(volumes, "items"), i, other)
	{
		if (strcmp(kube_name(other), kube_name(pv)) != 0 &&
		    cairn_text_same(kube_str(other, "spec", "csi", "volumeHandle"),
				    kube_str(pv, "spec", "csi", "volumeHandle")) &&
		    cairn_text_same(kube_str(other, "spec", "csi", "driver"),
				    kube_str(pv, "spec", "csi", "driver")))
			return true;
	}
	return false;
}

/* A volume that was made for a restore. If the restore took it over, only the object goes; else
 * the volume itself, which its driver deletes with the policy Delete. */
static int sweep_volume(struct sweeping *s, const json_t *pv, struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	int rc = s->volumes ? 0
			    : kube_list(s->common->client,
					KUBE_REF(&kube_persistentvolumes, NULL, NULL), NULL, s->how,
					&s->volumes, err);

	if (rc)
		return rc;
	if (volume_has_another(s->volumes, pv))
		return delete_object(s, &kube_persistentvolumes, pv, err);
	patch = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "uid", kube_uid(pv), "spec",
			  "persistentVolumeReclaimPolicy", "Delete");
	if (!patch)
		return cairn_err_nomem(err, "a patch");
	rc = kube_patch(s->common->client, KUBE_REF(&kube_persistentvolumes, NULL, kube_name(pv)),
			KUBE_PATCH_MERGE, patch, s->how, NULL, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* A restore takes as long as its data do. When Velero starts again, it fails a Restore that was
 * interrupted. */
static int find_running(struct sweeping *s, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *restore;
	int rc = kube_list(s->common->client, KUBE_REF(&velero_restores, s->common->ns, NULL), NULL,
			   s->how, &list, err);

	if (rc)
		return rc;
	json_array_foreach(kube_at(list, "items"), i, restore)
	{
		uint64_t made = 0;

		if (!cairn_text_same(kube_str(restore, "status", "phase"), "InProgress"))
			continue;
		(void)kube_time_parse(kube_str(restore, "metadata", "creationTimestamp"), &made);
		if (made < s->before_ns)
			s->before_ns = made;
	}
	return 0;
}

/* Imported contents and restored volumes were made for objects in the server's namespace. */
static bool is_of_another_server(const struct sweeping *s, const json_t *object)
{
	const char *content = kube_str(object, "spec", "volumeSnapshotRef", "namespace");
	const char *volume = kube_str(object, "spec", "claimRef", "namespace");

	return (content && strcmp(content, s->common->ns) != 0) ||
	       (volume && strcmp(volume, s->common->ns) != 0);
}

/* Old enough, and of no call that may still go on. */
static bool is_left(const struct sweeping *s, const json_t *object)
{
	const char *role = kube_label(object, VELERO_LABEL_ROLE);
	uint64_t made = 0;

	if (kube_is_deleted(object) || is_of_another_server(s, object) ||
	    !velero_sweep_is_old(object, cairn_now_ns(), s->common->period_ms) ||
	    !kube_time_parse(kube_str(object, "metadata", "creationTimestamp"), &made))
		return false;
	return cairn_text_same(role, VELERO_ROLE_DELETE) ||
	       (cairn_text_same(role, VELERO_ROLE_RESTORE) && made < s->before_ns);
}

static int sweep_kind(struct sweeping *s, const struct kube_resource *resource,
		      int (*sweep)(struct sweeping *s, const json_t *object, struct cairn_err *err),
		      struct cairn_err *err)
{
	const struct kube_list_query query = {.label_selector = VELERO_LABEL_ROLE};
	const char *ns = resource->namespaced ? s->common->ns : NULL;
	kube_auto_json json_t *list = NULL;
	int failed = 0;
	size_t i;
	json_t *object;
	int rc = kube_list(s->common->client, KUBE_REF(resource, ns, NULL), &query, s->how, &list,
			   err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	json_array_foreach(kube_at(list, "items"), i, object)
	{
		struct cairn_err why = {0};

		if (!is_left(s, object))
			continue;
		rc = sweep(s, object, &why);
		if (!rc)
			cairn_log(CAIRN_LOG_INFO, "object of an interrupted restore deleted",
				  CAIRN_STR("kind", resource->kind),
				  CAIRN_STR("name", kube_name(object)));
		if (rc && !failed)
			failed = cairn_err_set(err, rc, "%s %s: %s", resource->kind,
					       kube_name(object), why.msg);
	}
	return failed;
}

int velero_sweep_restores(const struct velero_common *common, const struct kube_call *how,
			  struct cairn_err *err)
{
	struct sweeping s = {.common = common, .how = how, .before_ns = UINT64_MAX};
	int rc = find_running(&s, err);

	if (!rc)
		rc = sweep_kind(&s, &kube_persistentvolumeclaims, sweep_claim, err);
	if (!rc)
		rc = sweep_kind(&s, &kube_volumesnapshots, sweep_import, err);
	if (!rc)
		rc = sweep_kind(&s, &kube_volumesnapshotcontents, sweep_content, err);
	if (!rc)
		rc = sweep_kind(&s, &kube_persistentvolumes, sweep_volume, err);
	json_decref(s.volumes);
	return rc;
}
