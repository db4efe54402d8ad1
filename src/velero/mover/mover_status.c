/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/mover/mover_status.h"

#include <string.h>

#include "base/err.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "velero/moved_backup.h"
#include "velero/mover/mover_request.h"
#include "velero/velero_message.h"

void mover_work_done(struct mover_work *work)
{
	backup_cluster_log_done(&work->log);
}

uint64_t mover_bytes_done(uint64_t size, uint64_t done, uint64_t total)
{
	done = done < total ? done : total;
	if (total == 0)
		return 0;
	if (total > size)
		return (uint64_t)((double)done / (double)total * (double)size);
	return size - total + done;
}

/* A patch that fails if the object has changed. */
static json_t *patch_new(const json_t *object)
{
	return json_pack("{s:{s:s},s:{}}", "metadata", "resourceVersion",
			 kube_resource_version(object), "status");
}

static json_t *finalizers_with(const json_t *object, bool ours)
{
	json_t *made = json_array();
	size_t i;
	json_t *one;

	json_array_foreach(kube_at(object, "metadata", "finalizers"), i, one)
	{
		const char *name = json_string_value(one);

		if (name && strcmp(name, MOVER_FINALIZER) != 0)
			json_array_append(made, one);
	}
	if (ours)
		json_array_append_new(made, json_string(MOVER_FINALIZER));
	return made;
}

int mover_status_accepted(const json_t *object, uint64_t now_ns, json_t **ret,
			  struct cairn_err *err)
{
	kube_auto_json json_t *patch = patch_new(object);
	char time[KUBE_TIME_MAX];
	int rc = patch ? kube_set(patch, err, finalizers_with(object, true), "metadata",
				  "finalizers")
		       : cairn_err_nomem(err, "status");

	if (!rc)
		rc = kube_set(patch, err,
			      json_pack("{s:s,s:s}", "phase", MOVER_PHASE_ACCEPTED,
					"acceptedTimestamp", kube_time(now_ns, time)),
			      "status");
	if (!rc)
		*ret = cairn_take(patch);
	return rc;
}

int mover_status_phase(const json_t *object, const char *phase, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *patch = patch_new(object);
	int rc = patch ? kube_set(patch, err, json_string(phase), "status", "phase")
		       : cairn_err_nomem(err, "status");

	if (!rc)
		*ret = cairn_take(patch);
	return rc;
}

int mover_status_ended(const json_t *object, const char *phase, const char *message,
		       uint64_t now_ns, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	char time[KUBE_TIME_MAX];
	int rc = mover_status_phase(object, phase, &patch, err);

	if (!rc)
		rc = kube_set(patch, err, json_string(kube_time(now_ns, time)), "status",
			      "completionTimestamp");
	if (!rc && !kube_str(object, "status", "startTimestamp"))
		rc = kube_set(patch, err, json_string(time), "status", "startTimestamp");
	if (!rc && message)
		rc = kube_set(patch, err, velero_message(message), "status", "message");
	if (!rc)
		*ret = cairn_take(patch);
	return rc;
}

int mover_status_progress(const json_t *object, const struct mover_work *work, uint64_t size,
			  uint64_t now_ns, json_t **ret, struct cairn_err *err)
{
	const char *phase = kube_str(object, "status", "phase");
	bool running = phase && strcmp(phase, MOVER_PHASE_RUNNING) == 0;
	uint64_t done = mover_bytes_done(size, work->done, work->total);
	kube_auto_json json_t *patch = NULL;
	char time[KUBE_TIME_MAX];
	int64_t before = -1;
	int rc;

	*ret = NULL;
	(void)kube_i64(object, &before, "status", "progress", "bytesDone");
	/* A pod that begins again does not undo what was shown. */
	if (!work->started || (running && (work->total == 0 || (int64_t)done <= before)))
		return 0;
	rc = mover_status_phase(object, MOVER_PHASE_RUNNING, &patch, err);
	if (!rc && !running)
		rc = kube_set(patch, err,
			      json_pack("{s:s,s:s,s:s}", "phase", MOVER_PHASE_RUNNING,
					"startTimestamp", kube_time(now_ns, time), "node",
					work->node),
			      "status");
	if (!rc && work->total)
		rc = kube_set(patch, err,
			      json_pack("{s:I,s:I}", "totalBytes", (json_int_t)size, "bytesDone",
					(json_int_t)done),
			      "status", "progress");
	if (!rc)
		*ret = cairn_take(patch);
	return rc;
}

int mover_status_uploaded(json_t *patch, const struct mover_work *work, struct cairn_err *err)
{
	const char *id = kube_str(work->log.result, "id");
	const char *mode = kube_str(work->log.result, "mode");
	int64_t size = 0;
	int64_t changed = 0;
	int rc;

	if (!velero_is_backup_id(id) || !kube_i64(work->log.result, &size, "size_bytes") ||
	    !kube_i64(work->log.result, &changed, "bytes_changed"))
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the Job did not report the backup that it made");
	rc = kube_set(patch, err, json_string(id), "status", "snapshotID");
	if (!rc)
		rc = kube_set(patch, err,
			      json_pack("{s:I,s:I}", "totalBytes", (json_int_t)size, "bytesDone",
					(json_int_t)size),
			      "status", "progress");
	if (!rc)
		rc = kube_set(patch, err, json_integer(changed), "status", "incrementalBytes");
	if (!rc && mode)
		rc = kube_set(patch, err, json_pack("{s:s}", "mode", mode), "status",
			      "dataMoverResult");
	if (!rc && work->node[0])
		rc = kube_set(patch, err, json_string(work->node), "status", "node");
	return rc ? rc : kube_set(patch, err, json_string("linux"), "status", "nodeOS");
}

int mover_status_released(const json_t *object, json_t **ret, struct cairn_err *err)
{
	*ret = json_pack("{s:{s:s,s:o}}", "metadata", "resourceVersion",
			 kube_resource_version(object), "finalizers",
			 finalizers_with(object, false));
	return *ret ? 0 : cairn_err_nomem(err, "status");
}
