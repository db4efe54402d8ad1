/* SPDX-License-Identifier: Apache-2.0 */

/* The steps of a DataUpload.
 *
 * Velero's snapshot is in the namespace of the claim; the Job is in Velero's, so the storage
 * snapshot is handed over to a second VolumeSnapshot there. The Job is made first, then the
 * second snapshot with its content, then the Job's claim, and only then the first snapshot is
 * removed without the storage's: until then every step can be done again from it, afterwards
 * none needs to be.
 */

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/object.h"
#include "velero/mover/mover_impl.h"

#define SOON_MS 50U

static int upload_begin(struct mover_job *job, struct mover_upload *upload,
			struct cluster_names *names, struct cairn_err *err)
{
	int rc = mover_upload_view(job->object, upload, err);

	return rc ? rc
		  : mover_names_of(job->object, MOVER_ROLE_UPLOAD, upload->claim, NULL, names, err);
}

/* Makes the Job unless it exists. *ret_busy is true while the repository is pruned. */
static int upload_make_job(struct mover_job *job, const struct mover_upload *upload,
			   struct cluster_names *names, const struct mover_source *source,
			   bool *ret_busy, struct cairn_err *err)
{
	cairn_cleanup(mover_place_done) struct mover_place place = {0};
	kube_auto_json json_t *object = NULL;
	unsigned slot = 0;
	int rc = mover_find_place(job, upload->location, upload->source_ns, &place, err);

	*ret_busy = false;
	if (!rc && place.read_only)
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "BackupStorageLocation '%s' is read-only", upload->location);
	if (!rc)
		rc = mover_names_of(job->object, MOVER_ROLE_UPLOAD, upload->claim, &place, names,
				    err);
	if (!rc)
		rc = mover_choose_slot(job, &place, &slot, ret_busy, err);
	if (rc || *ret_busy)
		return rc;
	rc = mover_upload_job(&job->mover->settings, upload, names, &place, source, job->object,
			      slot, &object, err);
	return rc ? rc : mover_create(job, &kube_jobs, object, NULL, err);
}

static int upload_make_rest(struct mover_job *job, const struct mover_upload *upload,
			    const struct cluster_names *names, const struct mover_source *source,
			    struct cairn_err *err)
{
	kube_auto_json json_t *snapshot = NULL;
	kube_auto_json json_t *made = NULL;
	kube_auto_json json_t *content = NULL;
	kube_auto_json json_t *claim = NULL;
	int rc = mover_upload_snapshot(names, source, job->object, &snapshot, err);

	if (!rc)
		rc = mover_create(job, &kube_volumesnapshots, snapshot, &made, err);
	if (!rc)
		rc = mover_upload_content(names, source, made, &content, err);
	if (!rc)
		rc = mover_create(job, &kube_volumesnapshotcontents, content, NULL, err);
	if (!rc)
		rc = mover_upload_claim(names, upload, source, job->object, &claim, err);
	return rc ? rc : mover_create(job, &kube_persistentvolumeclaims, claim, NULL, err);
}

/* Removes Velero's snapshot and its content; the storage's snapshot stays, because the second
 * content refers to it. `copy` is the second snapshot. */
static int upload_hand_over(struct mover_job *job, const struct mover_upload *upload,
			    const json_t *copy, struct cairn_err *err)
{
	const char *content = kube_annotation(copy, MOVER_ANNOTATION_CONTENT);
	kube_auto_json json_t *found = NULL;
	bool gone = true;
	const char *of;
	int rc;

	if (!content)
		return 0;
	rc = mover_get(job, &kube_volumesnapshotcontents, NULL, content, &found, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	/* The annotation names a content of this snapshot, else it was changed by others. */
	of = kube_str(found, "spec", "volumeSnapshotRef", "name");
	if (!of || strcmp(of, upload->snapshot) != 0)
		return 0;
	rc = mover_patch(job, &kube_volumesnapshotcontents, NULL, content,
			 json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Retain"), true, err);
	if (!rc)
		rc = mover_remove(job, &kube_volumesnapshots, upload->source_ns, upload->snapshot,
				  &gone, err);
	return rc ? rc : mover_remove(job, &kube_volumesnapshotcontents, NULL, content, &gone, err);
}

static int upload_wait(struct mover_job *job, const struct mover_upload *upload,
		       const struct mover_found *found, struct cairn_err *err)
{
	const char *why = kube_str(found->snapshot, "status", "error", "message");

	if (!mover_is_late(job->object, upload->timeout_ms))
		return 0;
	return cairn_err_set(err, CAIRN_PRECONDITION, "VolumeSnapshot '%s/%s' is not ready: %s",
			     upload->source_ns, upload->snapshot, why ? why : "no reason is given");
}

static int upload_make(struct mover_job *job, const struct mover_upload *upload,
		       struct cluster_names *names, struct cairn_err *err)
{
	cairn_cleanup(mover_found_done) struct mover_found found = {0};
	struct mover_source source;
	bool ready = false;
	bool busy = false;
	int rc = mover_check_upload(job, upload, &found, &ready, err);

	if (rc)
		return rc;
	job->again_ms = MOVER_LOOK_MS;
	if (!ready)
		return upload_wait(job, upload, &found, err);
	source = (struct mover_source){.claim = found.claim,
				       .volume = found.volume,
				       .snapshot = found.snapshot,
				       .content = found.content};
	rc = upload_make_job(job, upload, names, &source, &busy, err);
	if (rc || busy)
		return rc;
	job->again_ms = SOON_MS;
	return upload_make_rest(job, upload, names, &source, err);
}

int mover_upload_prepare(struct mover_job *job, struct cairn_err *err)
{
	struct mover_upload upload;
	struct cluster_names names;
	kube_auto_json json_t *claim = NULL;
	kube_auto_json json_t *copy = NULL;
	json_t *patch = NULL;
	int rc = upload_begin(job, &upload, &names, err);

	if (rc)
		return rc;
	/* The claim is the last that is made. */
	rc = mover_get(job, &kube_persistentvolumeclaims, upload.ns, names.name, &claim, err);
	if (rc == CAIRN_NOT_FOUND)
		return upload_make(job, &upload, &names, err);
	if (!rc)
		rc = mover_get(job, &kube_volumesnapshots, upload.ns, names.name, &copy, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	rc = upload_hand_over(job, &upload, copy, err);
	if (!rc)
		rc = mover_status_phase(job->object, MOVER_PHASE_PREPARED, &patch, err);
	return rc ? rc : mover_write(job, patch, err);
}

static int upload_complete(struct mover_job *job, const struct mover_work *work,
			   struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	int rc = mover_status_ended(job->object, MOVER_PHASE_COMPLETED, NULL, cairn_now_ns(),
				    &patch, err);

	if (!rc)
		rc = mover_status_uploaded(patch, work, err);
	if (rc == CAIRN_INTERNAL)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the Job did not report the backup that it made");
	return rc ? rc : mover_write(job, cairn_take(patch), err);
}

int mover_upload_follow(struct mover_job *job, struct cairn_err *err)
{
	cairn_cleanup(mover_work_done) struct mover_work work = {0};
	struct mover_upload upload;
	struct cluster_names names;
	int rc = upload_begin(job, &upload, &names, err);

	if (!rc)
		rc = mover_look(job, names.name, &work, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_PRECONDITION, "somebody deleted Job '%s'",
				     names.name);
	if (!rc)
		rc = mover_judge(&work, names.name, err);
	if (rc > 0)
		return upload_complete(job, &work, err);
	if (rc)
		return rc;
	job->again_ms = MOVER_LOOK_MS;
	return mover_show(job, &work, names.name, err);
}

/* A class may retain its volumes; those of Jobs are of no use. */
static int upload_drop_claim(struct mover_job *job, const char *ns, const char *name,
			     bool *ret_gone, struct cairn_err *err)
{
	kube_auto_json json_t *claim = NULL;
	const char *volume;
	int rc = mover_get(job, &kube_persistentvolumeclaims, ns, name, &claim, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	volume = kube_str(claim, "spec", "volumeName");
	if (volume)
		rc = mover_patch(
			job, &kube_persistentvolumes, NULL, volume,
			json_pack("{s:{s:s}}", "spec", "persistentVolumeReclaimPolicy", "Delete"),
			true, err);
	return rc ? rc : mover_remove(job, &kube_persistentvolumeclaims, ns, name, ret_gone, err);
}

/* The second snapshot takes its content and the storage's snapshot with it. */
static int upload_drop_snapshot(struct mover_job *job, const struct mover_upload *upload,
				const char *name, bool *ret_gone, struct cairn_err *err)
{
	kube_auto_json json_t *copy = NULL;
	int rc = mover_get(job, &kube_volumesnapshots, upload->ns, name, &copy, err);

	if (rc == CAIRN_NOT_FOUND)
		return mover_remove(job, &kube_volumesnapshotcontents, NULL, name, ret_gone, err);
	if (!rc)
		rc = upload_hand_over(job, upload, copy, err);
	return rc ? rc : mover_remove(job, &kube_volumesnapshots, upload->ns, name, ret_gone, err);
}

/* Without a second snapshot, Velero's is removed with the storage's, as Velero would do it. */
static int upload_drop_source(struct mover_job *job, const struct mover_upload *upload,
			      struct cairn_err *err)
{
	cairn_cleanup(mover_found_done) struct mover_found found = {0};
	struct cairn_err why = {0};
	bool ready = false;
	bool gone = true;
	int rc = mover_check_upload(job, upload, &found, &ready, &why);

	if (rc == CAIRN_PRECONDITION || rc == CAIRN_INVALID)
		return 0; /* gone, or not ours to delete */
	if (rc)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (found.content)
		rc = mover_patch(job, &kube_volumesnapshotcontents, NULL, kube_name(found.content),
				 json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete"), true,
				 err);
	return rc ? rc
		  : mover_remove(job, &kube_volumesnapshots, upload->source_ns, upload->snapshot,
				 &gone, err);
}

int mover_upload_clean(struct mover_job *job, bool *ret_gone, struct cairn_err *err)
{
	struct mover_upload upload;
	struct cluster_names names;
	int rc = upload_begin(job, &upload, &names, err);

	*ret_gone = true;
	if (rc)
		return 0; /* nothing was made for it */
	rc = mover_remove(job, &kube_jobs, upload.ns, names.name, ret_gone, err);
	if (!rc)
		rc = upload_drop_claim(job, upload.ns, names.name, ret_gone, err);
	if (!rc)
		rc = upload_drop_snapshot(job, &upload, names.name, ret_gone, err);
	if (!rc && *ret_gone)
		rc = upload_drop_source(job, &upload, err);
	return rc;
}
