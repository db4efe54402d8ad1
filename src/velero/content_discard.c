/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/content_discard.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "velero/content_taken.h"
#include "velero/watch_until.h"

#define GONE_MS 60000U /* time for the driver to delete a snapshot */

const char *velero_content_handle(const json_t *content)
{
	const char *handle = kube_str(content, "status", "snapshotHandle");

	return handle ? handle : kube_str(content, "spec", "source", "snapshotHandle");
}

bool velero_content_is_of(const json_t *content, const json_t *snapshot)
{
	return kube_snapshot_content_is_of(content, kube_namespace(snapshot), kube_name(snapshot),
					   kube_uid(snapshot));
}

static int content_is_gone(const json_t *object, void *arg, struct cairn_err *err)
{
	(void)arg;
	(void)err;
	return object == NULL;
}

/* Deletes the VolumeSnapshot if it and the content name each other. */
static int discard_snapshot(struct kube_client *client, const json_t *content,
			    const struct kube_call *how, struct cairn_err *err)
{
	const json_t *ref = kube_at(content, "spec", "volumeSnapshotRef");
	const char *ns = kube_str(ref, "namespace"), *name = kube_str(ref, "name");
	kube_auto_json json_t *snapshot = NULL;
	int rc;

	if (!ns || !name)
		return 0;
	rc = kube_get(client, KUBE_REF(&kube_volumesnapshots, ns, name), how, &snapshot, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (!cairn_text_same(kube_str(snapshot, "status", "boundVolumeSnapshotContentName"),
			     kube_name(content)) &&
	    !cairn_text_same(kube_str(snapshot, "spec", "source", "volumeSnapshotContentName"),
			     kube_name(content)))
		return 0;
	const struct kube_delete_options only = {.uid = kube_uid(snapshot)};

	rc = kube_delete(client, KUBE_REF(&kube_volumesnapshots, ns, name), &only, how, NULL, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int set_policy(struct kube_client *client, const struct kube_ref *ref,
		      const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *patch = json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete");

	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(client, ref, KUBE_PATCH_MERGE, patch, how, NULL, err);
}

int velero_content_discard(struct kube_client *client, const json_t *content,
			   const struct kube_call *how, struct cairn_err *err)
{
	const struct kube_ref *ref =
		KUBE_REF(&kube_volumesnapshotcontents, NULL, kube_name(content));
	int rc = set_policy(client, ref, how, err);

	if (!rc && velero_content_is_untaken(content, "snapshotHandle"))
		rc = velero_content_wait_taken(client, ref, "snapshotHandle", how, err);
	if (!rc)
		rc = discard_snapshot(client, content, how, err);
	if (!rc)
		rc = kube_delete(client, ref, NULL, how, NULL, err);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (!rc)
		rc = velero_watch_until(client, ref, how,
					cairn_monotonic_ns() + GONE_MS * CAIRN_NS_PER_MS,
					content_is_gone, NULL, NULL, err);
	return rc ? cairn_err_wrap(err, "delete VolumeSnapshotContent %s", kube_name(content)) : 0;
}
