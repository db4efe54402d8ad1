/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/mover/mover_objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/kube_resource.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "velero/mover/mover_place.h"
#include "velero/mover/mover_request.h"
#include "velero/velero_names.h"

#define SIZE_TEXT_MAX 24

int mover_names_of(const json_t *owner, const char *role, const char *claim,
		   const struct mover_place *place, struct cluster_names *ret,
		   struct cairn_err *err)
{
	struct cluster_names names = {.ns = kube_namespace(owner), .claim = claim, .role = role};
	int n = snprintf(names.name, sizeof(names.name), "cairn-%s-%s", role, kube_uid(owner));
	int rc = backup_cluster_key(claim, names.key, err);

	if (rc)
		return rc;
	if (n < 0 || (size_t)n >= sizeof(names.name))
		return cairn_err_set(err, CAIRN_INVALID, "metadata.uid is too long");
	snprintf(names.run, sizeof(names.run), "%.8s", kube_uid(owner));
	snprintf(names.repository, sizeof(names.repository), "%s", place ? place->key : "");
	*ret = names;
	return 0;
}

bool mover_is_volume_of(const json_t *volume, const struct cluster_names *names)
{
	const json_t *ref = kube_at(volume, "spec", "claimRef");

	return cairn_text_same(kube_str(ref, "namespace"), names->ns) &&
	       cairn_text_same(kube_str(ref, "name"), names->name);
}

/* --- snapshots --- */

/* The class that `from`, a snapshot or its content, has; neither needs one. */
static int set_snapshot_class(json_t *made, const json_t *from, struct cairn_err *err)
{
	const char *name = kube_str(from, "spec", "volumeSnapshotClassName");

	return name ? kube_set(made, err, json_string(name), "spec", "volumeSnapshotClassName") : 0;
}

int mover_upload_snapshot(const struct cluster_names *names, const struct mover_source *source,
			  const json_t *owner, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *made = NULL;
	int rc = backup_cluster_object_new(&kube_volumesnapshots, names, names->name, owner, &made,
					   err);

	if (!rc)
		rc = kube_set(made, err, json_string(kube_name(source->content)), "metadata",
			      "annotations", MOVER_ANNOTATION_CONTENT);
	if (!rc)
		rc = kube_set(made, err, json_string(names->name), "spec", "source",
			      "volumeSnapshotContentName");
	if (!rc)
		rc = set_snapshot_class(made, source->snapshot, err);
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

/* Annotations name the secrets with which the driver deletes the snapshot. */
static int content_notes(const json_t *from, json_t *made, struct cairn_err *err)
{
	const char *managed = kube_label(from, KUBE_SNAPSHOT_NODE_LABEL);
	const char *key;
	json_t *value;
	int rc = 0;

	json_object_foreach(kube_at(from, "metadata", "annotations"), key, value)
	{
		if (!rc && strncmp(key, "snapshot.storage.kubernetes.io/deletion-secret", 46) == 0)
			rc = kube_set(made, err, json_copy(value), "metadata", "annotations", key);
	}
	if (!rc && managed)
		rc = kube_set(made, err, json_string(managed), "metadata", "labels",
			      KUBE_SNAPSHOT_NODE_LABEL);
	/* The claim for the Job is in Block mode, whatever the source's. */
	return rc ? rc
		  : kube_set(made, err, json_string("true"), "metadata", "annotations",
			     CLUSTER_MODE_CHANGE);
}

int mover_upload_content(const struct cluster_names *names, const struct mover_source *source,
			 const json_t *snapshot, bool keep, json_t **ret, struct cairn_err *err)
{
	const char *driver = kube_str(source->content, "spec", "driver");
	const char *handle = kube_str(source->content, "status", "snapshotHandle");
	kube_auto_json json_t *made = NULL;
	int rc;

	if (!driver || !handle)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the snapshot has no handle");
	rc = backup_cluster_object_new(&kube_volumesnapshotcontents, names, names->name, NULL,
				       &made, err);
	if (rc)
		return rc;
	kube_remove(made, "metadata", "namespace");
	rc = content_notes(source->content, made, err);
	if (!rc)
		rc = kube_set(made, err,
			      json_pack("{s:s,s:s,s:{s:s},s:{s:s,s:s,s:s,s:s,s:s}}", "driver",
					driver, "deletionPolicy", keep ? "Retain" : "Delete",
					"source", "snapshotHandle", handle, "volumeSnapshotRef",
					"apiVersion", "snapshot.storage.k8s.io/v1", "kind",
					"VolumeSnapshot", "namespace", names->ns, "name",
					names->name, "uid", kube_uid(snapshot)),
			      "spec");
	if (!rc)
		rc = set_snapshot_class(made, source->content, err);
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

/* --- claims and volumes --- */

static const char *class_of(const json_t *claim)
{
	const char *name = kube_str(claim, "spec", "storageClassName");

	return name && *name ? name : NULL;
}

const char *mover_upload_class(const struct mover_upload *upload, const struct mover_source *source)
{
	return *upload->storage_class ? upload->storage_class : class_of(source->claim);
}

int mover_upload_claim(const struct cluster_names *names, const struct mover_upload *upload,
		       const struct mover_source *source, const json_t *owner, json_t **ret,
		       struct cairn_err *err)
{
	const char *size = kube_str(source->snapshot, "status", "restoreSize");
	struct cluster_claim_spec spec = {
		.names = names,
		.storage_class = mover_upload_class(upload, source),
		.mode = "Block",
		.size = size,
		.snapshot = names->name,
		.owner = owner,
	};

	if (!size || strcmp(size, "0") == 0)
		spec.size = kube_str(source->volume, "spec", "capacity", "storage");
	if (!spec.size)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the volume's size is unknown");
	return backup_cluster_claim(&spec, ret, err);
}

int mover_download_claim(const struct cluster_names *names, const struct mover_download *download,
			 const json_t *target, const json_t *owner, json_t **ret,
			 struct cairn_err *err)
{
	const char *wanted = kube_str(target, "spec", "resources", "requests", "storage");
	char text[SIZE_TEXT_MAX];
	uint64_t size = 0;
	struct cluster_claim_spec spec = {
		.names = names,
		.storage_class = class_of(target),
		.mode = "Block",
		.size = wanted,
		.owner = owner,
	};

	if (!wanted || !backup_cluster_quantity(wanted, &size))
		return cairn_err_set(err, CAIRN_PRECONDITION, "the claim requests no storage");
	/* The volume may have been larger than its claim asked for. */
	if (size < download->size) {
		snprintf(text, sizeof(text), "%" PRIu64, download->size);
		spec.size = text;
	}
	return backup_cluster_claim(&spec, ret, err);
}

/* The filesystem of a class's volumes; the kubelet passes it to the driver. */
static const char *filesystem_of(const json_t *class_object)
{
	const char *type = kube_str(class_object, "parameters", "csi.storage.k8s.io/fstype");

	return type && *type ? type : NULL;
}

static int volume_spec(const json_t *written, const json_t *target, const json_t *class_object,
		       json_t *made, struct cairn_err *err)
{
	const char *mode = kube_str(target, "spec", "volumeMode");
	const char *filesystem = filesystem_of(class_object);
	json_t *modes = json_deep_copy(kube_at(target, "spec", "accessModes"));
	int rc = kube_set(made, err, json_deep_copy(kube_at(written, "spec")), "spec");

	mode = mode ? mode : "Filesystem";
	if (rc) {
		json_decref(modes);
		return rc;
	}
	rc = kube_set(made, err, modes, "spec", "accessModes");
	if (!rc)
		rc = kube_set(made, err, json_string(mode), "spec", "volumeMode");
	if (!rc && filesystem && strcmp(mode, "Filesystem") == 0)
		rc = kube_set(made, err, json_string(filesystem), "spec", "csi", "fsType");
	return rc ? rc
		  : kube_set(made, err,
			     json_pack("{s:s,s:s,s:s,s:s,s:s}", "apiVersion", "v1", "kind",
				       "PersistentVolumeClaim", "namespace", kube_namespace(target),
				       "name", kube_name(target), "uid", kube_uid(target)),
			     "spec", "claimRef");
}

int mover_download_volume(const struct cluster_names *names, const json_t *written,
			  const json_t *target, const json_t *class_object, json_t **ret,
			  struct cairn_err *err)
{
	const char *policy = kube_str(class_object, "reclaimPolicy");
	json_t *labels = kube_at(target, "spec", "selector", "matchLabels");
	kube_auto_json json_t *made = NULL;
	const char *key;
	json_t *value;
	int rc = backup_cluster_object_new(&kube_persistentvolumes, names, names->name, NULL, &made,
					   err);

	if (rc)
		return rc;
	kube_remove(made, "metadata", "namespace");
	json_object_foreach(labels, key, value)
	{
		if (!rc)
			rc = kube_set(made, err, json_copy(value), "metadata", "labels", key);
	}
	/* The provisioner deletes only volumes that carry its annotations. */
	json_object_foreach(kube_at(written, "metadata", "annotations"), key, value)
	{
		if (!rc && strcmp(key, "pv.kubernetes.io/bound-by-controller") != 0)
			rc = kube_set(made, err, json_copy(value), "metadata", "annotations", key);
	}
	if (!rc)
		rc = volume_spec(written, target, class_object, made, err);
	if (!rc)
		rc = kube_set(made, err, json_string(policy ? policy : "Delete"), "spec",
			      "persistentVolumeReclaimPolicy");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}
