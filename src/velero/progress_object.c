/* SPDX-License-Identifier: Apache-2.0 */

/* Progress objects as trees. */

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "velero/claim_snapshot.h"
#include "velero/progress.h"
#include "velero/velero_message.h"
#include "velero/velero_names.h"

static json_t *status_begun(uint64_t now_ns, uint64_t total)
{
	char time[KUBE_TIME_MAX];

	return json_pack("{s:s, s:s, s:n, s:s, s:{s:I, s:I}}", "phase", "InProgress",
			 "startTimestamp", kube_time(now_ns, time), "completionTimestamp",
			 "message", "", "progress", "TotalBytes", (json_int_t)total, "BytesDone",
			 (json_int_t)0);
}

static int backup_labels(json_t *object, const struct velero_volume_backup *info,
			 struct cairn_err *err)
{
	char backup[VELERO_LABEL_VALUE_MAX], volume[VELERO_LABEL_VALUE_MAX];
	int rc = velero_label_value(kube_name(info->backup), backup, err);

	if (!rc)
		rc = velero_label_value(info->volume, volume, err);
	return rc ? rc
		  : kube_set(object, err,
			     json_pack("{s:s, s:s, s:s}", VELERO_LABEL_BACKUP, backup,
				       VELERO_LABEL_PV, volume, VELERO_LABEL_VOLUME, volume),
			     "metadata", "labels");
}

int velero_volume_backup_object(const struct velero_volume_backup *info, const char *ns,
				uint64_t now_ns, uint64_t total, json_t **ret,
				struct cairn_err *err)
{
	kube_auto_json json_t *object = kube_object_new(&velero_volume_backups, ns, info->name);
	const char *backup = kube_name(info->backup);
	int rc = object ? backup_labels(object, info, err) : cairn_err_nomem(err, "an object");

	if (!rc && strcmp(kube_namespace(info->backup), ns) == 0)
		rc = velero_own_by_backup(object, backup, kube_uid(info->backup), err);
	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s*, s:s, s:s}",
					"backupName", backup, "backupUID", kube_uid(info->backup),
					"location", info->location ? info->location : "",
					"persistentVolumeName", info->volume, "providerVolumeID",
					info->volume_id, "provider", info->provider, "volumeType",
					info->volume_type, "volumeAZ", info->zone, "volume",
					info->volume, "backup", backup),
			      "spec");
	if (!rc)
		rc = kube_set(object, err, status_begun(now_ns, total), "status");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

static int restore_labels(json_t *object, const struct velero_volume_restore_info *info,
			  struct cairn_err *err)
{
	char backup[VELERO_LABEL_VALUE_MAX], id[VELERO_LABEL_VALUE_MAX];
	char provider[VELERO_LABEL_VALUE_MAX], restore[VELERO_LABEL_VALUE_MAX] = "";
	int rc = velero_label_value(info->backup, backup, err);

	if (!rc)
		rc = velero_label_of_text(info->snapshot_id, id, err);
	if (!rc)
		rc = velero_label_of_text(info->provider, provider, err);
	if (!rc && info->restore)
		rc = velero_label_value(kube_name(info->restore), restore, err);
	return rc ? rc
		  : kube_set(object, err,
			     json_pack("{s:s, s:s, s:s, s:s*}", VELERO_LABEL_BACKUP, backup,
				       VELERO_LABEL_SNAPSHOT_ID, id, VELERO_LABEL_PROVIDER,
				       provider, VELERO_LABEL_RESTORE,
				       info->restore ? restore : NULL),
			     "metadata", "labels");
}

/* The Restore owns the object, so that it goes with it. */
static int own_by_restore(json_t *object, const json_t *restore, struct cairn_err *err)
{
	return kube_set(object, err,
			json_pack("[{s:s, s:s, s:s, s:s}]", "apiVersion", "velero.io/v1", "kind",
				  velero_restores.kind, "name", kube_name(restore), "uid",
				  kube_uid(restore)),
			"metadata", "ownerReferences");
}

int velero_volume_restore_object(const struct velero_volume_restore_info *info, const char *ns,
				 uint64_t now_ns, uint64_t total, json_t **ret,
				 struct cairn_err *err)
{
	kube_auto_json json_t *object = kube_object_new(&velero_volume_restores, ns, info->name);
	int rc = object ? restore_labels(object, info, err) : cairn_err_nomem(err, "an object");

	if (!rc && info->restore)
		rc = own_by_restore(object, info->restore, err);
	if (!rc)
		rc = kube_set(object, err,
			      json_pack("{s:s, s:s, s:s, s:s, s:s*}", "snapshotID",
					info->snapshot_id, "backupName", info->backup, "provider",
					info->provider, "volumeType", info->volume_type, "volumeAZ",
					info->zone),
			      "spec");
	if (!rc)
		rc = kube_set(object, err, status_begun(now_ns, total), "status");
	if (!rc)
		rc = kube_set(object, err, json_string(""), "status", "volumeID");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

static int set_ids(json_t *patch, const struct kube_resource *resource, const char *id,
		   struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX];
	int rc;

	if (resource != &velero_volume_backups)
		return kube_set(patch, err, json_string(id), "status", "volumeID");
	rc = kube_set(patch, err, json_string(id), "status", "snapshotID");
	if (!rc)
		rc = kube_set(patch, err, json_string(id), "status", "providerSnapshotID");
	if (!rc)
		rc = velero_label_of_text(id, label, err);
	return rc ? rc
		  : kube_set(patch, err, json_string(label), "metadata", "labels",
			     VELERO_LABEL_SNAPSHOT_ID);
}

int velero_progress_end_patch(const struct kube_resource *resource, const char *id,
			      const char *failure, uint64_t now_ns, uint64_t done, uint64_t total,
			      json_t **ret, struct cairn_err *err)
{
	char time[KUBE_TIME_MAX];
	kube_auto_json json_t *patch = json_pack(
		"{s:{s:s, s:o, s:s, s:{s:I, s:I}}}", "status", "phase",
		failure ? "Failed" : "Completed", "message", velero_message(failure ? failure : ""),
		"completionTimestamp", kube_time(now_ns, time), "progress", "TotalBytes",
		(json_int_t)total, "BytesDone", (json_int_t)done);
	int rc = patch ? 0 : cairn_err_nomem(err, "a patch");

	if (!rc && id)
		rc = set_ids(patch, resource, id, err);
	if (!rc)
		*ret = cairn_take(patch);
	return rc;
}
