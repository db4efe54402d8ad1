/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/static_content.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/snapshot_id.h"
#include "velero/velero_names.h"

#define SECRET_NAME "csi.storage.k8s.io/snapshotter-secret-name"
#define SECRET_NS   "csi.storage.k8s.io/snapshotter-secret-namespace"

/* The first class of the driver whose secret does not depend on a VolumeSnapshot, which is
 * another one in every cluster. */
static const json_t *class_with_secret(const json_t *classes, const char *driver)
{
	size_t i;
	json_t *class_object;

	json_array_foreach(kube_at(classes, "items"), i, class_object)
	{
		const char *name = kube_str(class_object, "parameters", SECRET_NAME);
		const char *ns = kube_str(class_object, "parameters", SECRET_NS);

		if (cairn_text_same(kube_str(class_object, "driver"), driver) && name && ns &&
		    !strchr(name, '$') && !strchr(ns, '$'))
			return class_object;
	}
	return NULL;
}

static int set_secret(json_t *object, const struct velero_static_content *wanted,
		      struct cairn_err *err)
{
	const json_t *class_object = class_with_secret(wanted->classes, wanted->id->driver);

	if (!class_object)
		return 0;
	return kube_set(object, err,
			json_pack("{s:s, s:s}", VELERO_ANNOTATION_SECRET,
				  kube_str(class_object, "parameters", SECRET_NAME),
				  VELERO_ANNOTATION_SECRET_NS,
				  kube_str(class_object, "parameters", SECRET_NS)),
			"metadata", "annotations");
}

int velero_static_content_object(const struct velero_static_content *wanted, json_t **ret,
				 struct cairn_err *err)
{
	kube_auto_json json_t *object =
		kube_object_new(&kube_volumesnapshotcontents, NULL, wanted->name);
	const struct velero_snapshot_id *id = wanted->id;
	int rc = object ? 0 : cairn_err_nomem(err, "an object");

	if (!rc)
		rc = kube_set(object, err, json_string(wanted->role), "metadata", "labels",
			      VELERO_LABEL_ROLE);
	if (!rc)
		rc = set_secret(object, wanted, err);
	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:s, s:s, s:s, s:{s:s}, s:{s:s, s:s, s:s, s:s}}",
					"driver", id->driver, "deletionPolicy", wanted->policy,
					"sourceVolumeMode", id->block ? "Block" : "Filesystem",
					"source", "snapshotHandle", id->handle, "volumeSnapshotRef",
					"apiVersion", "snapshot.storage.k8s.io/v1", "kind",
					kube_volumesnapshots.kind, "namespace", wanted->ns, "name",
					wanted->name),
			      "spec");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

int velero_static_snapshot_object(const struct velero_static_content *wanted, json_t **ret,
				  struct cairn_err *err)
{
	kube_auto_json json_t *object =
		kube_object_new(&kube_volumesnapshots, wanted->ns, wanted->name);
	int rc = object ? 0 : cairn_err_nomem(err, "an object");

	if (!rc)
		rc = kube_set(object, err, json_string(wanted->role), "metadata", "labels",
			      VELERO_LABEL_ROLE);
	if (!rc)
		rc = kube_set(
			object, err,
			json_pack("{s:{s:s}}", "source", "volumeSnapshotContentName", wanted->name),
			"spec");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}
