/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/mover/mover_request.h"

#include <string.h>

#include "base/err.h"
#include "kube/object.h"
#include "velero/go_duration.h"
#include "velero/moved_backup.h"

static bool phase_is(const char *phase, const char *of)
{
	return strcmp(phase, of) == 0;
}

enum mover_step mover_step_of(const json_t *object)
{
	const char *phase = kube_str(object, "status", "phase");
	bool taken = kube_has_finalizer(object, MOVER_FINALIZER);

	if (!velero_is_moved_by_us(object))
		return MOVER_STEP_NONE;
	phase = phase ? phase : "";
	if (kube_is_deleted(object) || phase_is(phase, MOVER_PHASE_COMPLETED) ||
	    phase_is(phase, MOVER_PHASE_FAILED) || phase_is(phase, MOVER_PHASE_CANCELED))
		return taken ? MOVER_STEP_CLEAN : MOVER_STEP_NONE;
	if (kube_is(object, "spec", "cancel") || phase_is(phase, MOVER_PHASE_CANCELING))
		return MOVER_STEP_CANCEL;
	/* Without the finalizer, somebody else wrote the phase: it has not been checked. */
	if (!taken)
		return MOVER_STEP_ACCEPT;
	if (phase_is(phase, MOVER_PHASE_ACCEPTED))
		return MOVER_STEP_PREPARE;
	if (phase_is(phase, MOVER_PHASE_PREPARED) || phase_is(phase, MOVER_PHASE_RUNNING))
		return MOVER_STEP_FOLLOW;
	return MOVER_STEP_ACCEPT;
}

/* --- views --- */

static int request_lacks(const char *field, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INVALID, "%s is missing or malformed", field);
}

/* The owner that is its controller. */
static int request_owner(const json_t *object, const char *kind, const char **ret_name,
			 const char **ret_uid, struct cairn_err *err)
{
	size_t i;
	json_t *owner;

	json_array_foreach(kube_at(object, "metadata", "ownerReferences"), i, owner)
	{
		const char *of = kube_str(owner, "kind");
		const char *name = kube_str(owner, "name");
		const char *uid = kube_str(owner, "uid");

		if (!of || strcmp(of, kind) != 0 || !velero_is_object_name(name) || !uid)
			continue;
		*ret_name = name;
		*ret_uid = uid;
		return 0;
	}
	return cairn_err_set(err, CAIRN_INVALID, "it is not owned by a %s", kind);
}

static uint64_t request_timeout(const json_t *object)
{
	const char *text = kube_str(object, "spec", "operationTimeout");
	uint64_t ms = 0;

	return text && velero_go_duration(text, &ms) && ms > 0 ? ms : MOVER_TIMEOUT_MS;
}

int mover_upload_view(const json_t *object, struct mover_upload *ret, struct cairn_err *err)
{
	const char *type = kube_str(object, "spec", "snapshotType");
	const char *keep = kube_str(object, "spec", "dataMoverConfig", VELERO_KEEP_SNAPSHOT);
	struct mover_upload view = {
		.ns = kube_namespace(object),
		.name = kube_name(object),
		.uid = kube_uid(object),
		.source_ns = kube_str(object, "spec", "sourceNamespace"),
		.claim = kube_str(object, "spec", "sourcePVC"),
		.snapshot = kube_str(object, "spec", "csiSnapshot", "volumeSnapshot"),
		.storage_class = kube_str(object, "spec", "csiSnapshot", "storageClass"),
		.location = kube_str(object, "spec", "backupStorageLocation"),
		.timeout_ms = request_timeout(object),
		.keep = keep && strcmp(keep, "true") == 0,
	};

	if (!type || strcmp(type, "CSI") != 0)
		return request_lacks("spec.snapshotType", err);
	if (!velero_is_namespace(view.uid))
		return request_lacks("metadata.uid", err);
	if (!velero_is_namespace(view.source_ns))
		return request_lacks("spec.sourceNamespace", err);
	if (!velero_is_object_name(view.claim))
		return request_lacks("spec.sourcePVC", err);
	if (!velero_is_object_name(view.snapshot))
		return request_lacks("spec.csiSnapshot.volumeSnapshot", err);
	if (!velero_is_object_name(view.location))
		return request_lacks("spec.backupStorageLocation", err);
	view.storage_class = view.storage_class ? view.storage_class : "";
	if (*view.storage_class && !velero_is_object_name(view.storage_class))
		return request_lacks("spec.csiSnapshot.storageClass", err);
	if (request_owner(object, "Backup", &view.backup, &view.backup_uid, err) != 0)
		return CAIRN_INVALID;
	*ret = view;
	return 0;
}

int mover_download_view(const json_t *object, struct mover_download *ret, struct cairn_err *err)
{
	int64_t size = 0;
	struct mover_download view = {
		.ns = kube_namespace(object),
		.name = kube_name(object),
		.uid = kube_uid(object),
		.source_ns = kube_str(object, "spec", "sourceNamespace"),
		.target_ns = kube_str(object, "spec", "targetVolume", "namespace"),
		.claim = kube_str(object, "spec", "targetVolume", "pvc"),
		.backup_id = kube_str(object, "spec", "snapshotID"),
		.location = kube_str(object, "spec", "backupStorageLocation"),
		.timeout_ms = request_timeout(object),
	};

	if (!velero_is_namespace(view.uid))
		return request_lacks("metadata.uid", err);
	if (!velero_is_namespace(view.source_ns))
		return request_lacks("spec.sourceNamespace", err);
	if (!velero_is_namespace(view.target_ns))
		return request_lacks("spec.targetVolume.namespace", err);
	if (!velero_is_object_name(view.claim))
		return request_lacks("spec.targetVolume.pvc", err);
	if (!velero_is_backup_id(view.backup_id))
		return request_lacks("spec.snapshotID", err);
	if (!velero_is_object_name(view.location))
		return request_lacks("spec.backupStorageLocation", err);
	if (request_owner(object, "Restore", &view.restore, &view.restore_uid, err) != 0)
		return CAIRN_INVALID;
	if (kube_i64(object, &size, "spec", "snapshotSize") && size > 0)
		view.size = (uint64_t)size;
	*ret = view;
	return 0;
}
