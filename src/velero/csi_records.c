/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/csi_records.h"

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/content_discard.h"
#include "velero/velero_names.h"

static const json_t *content_of(const json_t *contents, const json_t *snapshot)
{
	const char *name = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");
	size_t i;
	json_t *content;

	json_array_foreach(kube_at(contents, "items"), i, content)
	{
		if (cairn_text_same(kube_name(content), name))
			return content;
	}
	return NULL;
}

static bool is_recorded(const json_t *snapshot)
{
	return !kube_label(snapshot, VELERO_LABEL_RESTORE) &&
	       !cairn_text_same(kube_label(snapshot, VELERO_LABEL_ROLE), VELERO_ROLE_SNAPSHOTTER) &&
	       kube_str(snapshot, "spec", "source", "persistentVolumeClaimName");
}

static int csi_record(const json_t *snapshot, const json_t *content, json_t **ret,
		      struct cairn_err *err)
{
	kube_auto_json json_t *copy = kube_copy(snapshot);
	const char *handle = velero_content_handle(content);
	const char *driver = kube_str(content, "spec", "driver");
	int rc = copy ? 0 : cairn_err_nomem(err, "a record");

	kube_remove(copy, "metadata", "managedFields");
	/* Items of a list do not name their kind. */
	if (!rc)
		rc = kube_set(copy, err, json_string("snapshot.storage.k8s.io/v1"), "apiVersion");
	if (!rc)
		rc = kube_set(copy, err, json_string(kube_volumesnapshots.kind), "kind");
	if (!rc && handle)
		rc = kube_set(copy, err, json_string(handle), "metadata", "annotations",
			      VELERO_ANNOTATION_HANDLE);
	if (!rc && driver)
		rc = kube_set(copy, err, json_string(driver), "metadata", "annotations",
			      VELERO_ANNOTATION_DRIVER);
	if (!rc)
		*ret = cairn_take(copy);
	return rc;
}

int velero_csi_records(const json_t *snapshots, const json_t *contents, json_t **ret,
		       struct cairn_err *err)
{
	kube_auto_json json_t *records = json_array();
	size_t i;
	json_t *snapshot;
	int rc = records ? 0 : cairn_err_nomem(err, "records");

	json_array_foreach(kube_at(snapshots, "items"), i, snapshot)
	{
		json_t *record = NULL;

		if (rc || !is_recorded(snapshot))
			continue;
		rc = csi_record(snapshot, content_of(contents, snapshot), &record, err);
		if (!rc && json_array_append_new(records, record))
			rc = cairn_err_nomem(err, "records");
	}
	if (!rc)
		*ret = cairn_take(records);
	return rc;
}
