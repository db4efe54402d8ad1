/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_snapshot.h"

#include "base/err.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

/* A new snapshot has no status at all. */
static int kube_snapshot_check_snapshot(const struct kube_snapshot_query *query,
					const json_t *snapshot, const char **ret_content,
					struct cairn_err *err)
{
	const char *bound = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");

	if (!kube_is(snapshot, "status", "readyToUse"))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "the VolumeSnapshot is not yet ready, name: %s", query->name);
	if (!bound || !bound[0])
		return cairn_err_set(
			err, CAIRN_UNAVAILABLE,
			"boundVolumeSnapshotContentName is not set in VolumeSnapshot status, "
			"name: %s",
			query->name);
	*ret_content = bound;
	return 0;
}

bool kube_snapshot_content_is_of(const json_t *content, const char *ns, const char *name,
				 const char *snapshot_uid)
{
	const json_t *ref = kube_at(content, "spec", "volumeSnapshotRef");
	const char *uid = kube_str(ref, "uid");

	return cairn_text_same(kube_str(ref, "namespace"), ns) &&
	       cairn_text_same(kube_str(ref, "name"), name) &&
	       (!uid || !uid[0] || cairn_text_same(uid, snapshot_uid));
}

static int kube_snapshot_check_driver(const struct kube_snapshot_query *query,
				      const json_t *content, struct cairn_err *err)
{
	const char *driver = kube_str(content, "spec", "driver");

	if (query->driver && !cairn_text_same(driver, query->driver))
		return cairn_err_set(err, CAIRN_INVALID,
				     "VolumeSnapshot '%s' does not belong to the CSI driver '%s'",
				     query->name, query->driver);
	if (!driver || !driver[0])
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshotContent '%s' names no driver",
				     kube_name(content));
	return 0;
}

static int check_content(const struct kube_snapshot_query *query, const json_t *snapshot,
			 const json_t *content, struct cairn_err *err)
{
	const char *name = kube_name(content);
	const char *handle = kube_str(content, "status", "snapshotHandle");
	int rc;

	if (!kube_snapshot_content_is_of(content, query->ns, query->name, kube_uid(snapshot)))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshotContent '%s' is not bound to VolumeSnapshot "
				     "'%s/%s'",
				     name, query->ns, query->name);
	rc = kube_snapshot_check_driver(query, content, err);
	if (rc)
		return rc;
	if (!kube_is(content, "status", "readyToUse"))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "the VolumeSnapshotContent is not yet ready, name: %s", name);
	if (!handle || !handle[0])
		return cairn_err_set(
			err, CAIRN_UNAVAILABLE,
			"snapshotHandle is not set in VolumeSnapshotContent status, name: %s",
			name);
	return 0;
}

int kube_snapshot_resolve(const struct kube_snapshot_query *query, struct kube_snapshot *ret,
			  struct cairn_err *err)
{
	kube_auto_json json_t *snapshot = NULL;
	kube_auto_json json_t *content = NULL;
	const char *bound = NULL;
	int rc = query->get(query->arg, KUBE_REF(&kube_volumesnapshots, query->ns, query->name),
			    &snapshot, err);

	if (!rc)
		rc = kube_snapshot_check_snapshot(query, snapshot, &bound, err);
	if (!rc)
		rc = query->get(query->arg, KUBE_REF(&kube_volumesnapshotcontents, NULL, bound),
				&content, err);
	if (!rc)
		rc = check_content(query, snapshot, content, err);
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

struct source {
	struct kube_client *client;
	const struct kube_call *how;
};

static int get_object(void *arg, const struct kube_ref *ref, json_t **ret, struct cairn_err *err)
{
	const struct source *from = arg;
	int rc = kube_get(from->client, ref, from->how, ret, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	return cairn_err_set(err, rc, "there is no %s '%s%s%s'", ref->resource->kind,
			     ref->ns ? ref->ns : "", ref->ns ? "/" : "", ref->name);
}

int kube_snapshot_get(struct kube_client *client, const char *ns, const char *name,
		      const struct kube_call *how, struct kube_snapshot *ret, struct cairn_err *err)
{
	struct source from = {.client = client, .how = how};
	const struct kube_snapshot_query query = {
		.ns = ns, .name = name, .get = get_object, .arg = &from};

	return kube_snapshot_resolve(&query, ret, err);
}

void kube_snapshot_done(struct kube_snapshot *snapshot)
{
	json_decref(snapshot->snapshot);
	json_decref(snapshot->content);
	*snapshot = (struct kube_snapshot){0};
}
