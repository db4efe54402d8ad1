/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/snapshot.h"

#include <string.h>

#include "base/err.h"
#include "kube/client.h"
#include "kube/object.h"
#include "kube/resource.h"

/* Names its content, and is ready. */
static int check_snapshot(const json_t *snapshot, struct cairn_err *err)
{
	const char *name = kube_name(snapshot);

	if (!kube_str(snapshot, "status", "boundVolumeSnapshotContentName"))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "VolumeSnapshot '%s' is not bound to a content yet", name);
	if (!kube_is(snapshot, "status", "readyToUse"))
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "VolumeSnapshot '%s' is not ready yet",
				     name);
	return 0;
}

static bool same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

/* The content points back; a uid is there once the two are bound. */
static int check_content(const json_t *snapshot, const json_t *content, struct cairn_err *err)
{
	const char *uid = kube_str(content, "spec", "volumeSnapshotRef", "uid");

	if (!same(kube_str(content, "spec", "volumeSnapshotRef", "namespace"),
		  kube_namespace(snapshot)) ||
	    !same(kube_str(content, "spec", "volumeSnapshotRef", "name"), kube_name(snapshot)) ||
	    (uid && uid[0] && !same(uid, kube_uid(snapshot))))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshotContent '%s' belongs to another VolumeSnapshot "
				     "than '%s'",
				     kube_name(content), kube_name(snapshot));
	if (!kube_str(content, "spec", "driver"))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshotContent '%s' names no driver",
				     kube_name(content));
	if (!kube_str(content, "status", "snapshotHandle"))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "VolumeSnapshotContent '%s' is not ready yet",
				     kube_name(content));
	return 0;
}

int kube_snapshot_view(json_t *snapshot, json_t *content, struct kube_snapshot *ret,
		       struct cairn_err *err)
{
	int rc = check_snapshot(snapshot, err);

	if (!rc && !content)
		rc = cairn_err_set(err, CAIRN_PRECONDITION, "VolumeSnapshot '%s' has no content",
				   kube_name(snapshot));
	if (!rc)
		rc = check_content(snapshot, content, err);
	if (rc)
		return rc;
	*ret = (struct kube_snapshot){
		.name = kube_name(snapshot),
		.driver = kube_str(content, "spec", "driver"),
		.handle = kube_str(content, "status", "snapshotHandle"),
		.volume_handle = kube_str(content, "spec", "source", "volumeHandle"),
		.snapshot = json_incref(snapshot),
		.content = json_incref(content),
	};
	return 0;
}

int kube_snapshot_get(struct kube_client *client, const char *ns, const char *name,
		      const struct kube_call *how, struct kube_snapshot *ret, struct cairn_err *err)
{
	kube_auto_json json_t *snapshot = NULL;
	kube_auto_json json_t *content = NULL;
	int rc = kube_get(client, KUBE_REF(&kube_volumesnapshots, ns, name), how, &snapshot, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc, "there is no VolumeSnapshot '%s/%s'", ns, name);
	if (!rc)
		rc = check_snapshot(snapshot, err);
	if (rc)
		return rc;
	const char *bound = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");

	rc = kube_get(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, bound), how, &content,
		      err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc, "there is no VolumeSnapshotContent '%s'", bound);
	return rc ? rc : kube_snapshot_view(snapshot, content, ret, err);
}

void kube_snapshot_done(struct kube_snapshot *snapshot)
{
	json_decref(snapshot->snapshot);
	json_decref(snapshot->content);
	*snapshot = (struct kube_snapshot){0};
}
