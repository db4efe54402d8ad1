/* SPDX-License-Identifier: Apache-2.0 */

/* The steps of a DataUpload.
 *
 * Velero's snapshot is in the namespace of the claim; the Job is in Velero's, so the storage
 * snapshot is handed over to a second VolumeSnapshot there. The Job is made first, then the
 * second snapshot with its content, then the Job's claim, and only then the first snapshot is
 * removed without the storage's: until then every step can be done again from it, afterwards
 * none needs to be. A snapshot that is copied and stays (mover_upload.keep) is not handed over.
 */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/moved_backup.h"
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
		rc = mover_upload_content(names, source, made, upload->keep, &content, err);
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
	const json_t *of;
	int rc;

	if (!content || upload->keep)
		return 0;
	rc = mover_get(job, &kube_volumesnapshotcontents, NULL, content, &found, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	/* The annotation names a content of this snapshot, else it was changed by others. */
	of = kube_at(found, "spec", "volumeSnapshotRef");
	if (!cairn_text_same(kube_str(of, "namespace"), upload->source_ns) ||
	    !cairn_text_same(kube_str(of, "name"), upload->snapshot))
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

/* A missing class is not an error here: the claim's own events say it. */
static int upload_find_class(struct mover_job *job, const struct mover_upload *upload,
			     const struct mover_source *source, json_t **ret, struct cairn_err *err)
{
	const char *name = mover_upload_class(upload, source);
	int rc = name ? mover_get(job, &kube_storageclasses, NULL, name, ret, err) : 0;

	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int upload_make(struct mover_job *job, const struct mover_upload *upload,
		       struct cluster_names *names, struct cairn_err *err)
{
	cairn_cleanup(mover_found_done) struct mover_found found = {0};
	kube_auto_json json_t *class_object = NULL;
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
	rc = upload_find_class(job, upload, &source, &class_object, err);
	source.storage_class = class_object;
	if (!rc)
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

/* Notes on the content of a snapshot that stays where its copy is, so that both are deleted
 * together, whichever process is killed now. */
static int upload_note_copy(struct mover_job *job, const struct mover_upload *upload,
			    const char *name, const json_t *ended, struct cairn_err *err)
{
	kube_auto_json json_t *copy = NULL;
	struct velero_moved moved = {0};
	char text[VELERO_MOVED_TEXT_MAX];
	const char *content;
	int rc = mover_get(job, &kube_volumesnapshots, upload->ns, name, &copy, err);

	content = rc ? NULL : kube_annotation(copy, MOVER_ANNOTATION_CONTENT);
	if (!rc && content) {
		snprintf(moved.ns, sizeof(moved.ns), "%s", upload->source_ns);
		snprintf(moved.location, sizeof(moved.location), "%s", upload->location);
		snprintf(moved.backup_id, sizeof(moved.backup_id), "%s",
			 kube_str(ended, "status", "snapshotID"));
		velero_moved_format(&moved, text);
		rc = mover_patch(job, &kube_volumesnapshotcontents, NULL, content,
				 json_pack("{s:{s:{s:s}}}", "metadata", "annotations",
					   VELERO_ANNOTATION_MOVED, text),
				 false, err);
	}
	if (rc == CAIRN_NOT_FOUND || (!rc && !content))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the snapshot was deleted while it was copied");
	return rc;
}

/* A backup in another place than the BackupStorageLocation says now could not be restored. */
static int upload_check_place(struct mover_job *job, const struct mover_upload *upload,
			      const char *name, struct cairn_err *err)
{
	cairn_cleanup(mover_place_done) struct mover_place place = {0};
	kube_auto_json json_t *found = NULL;
	int rc = mover_get(job, &kube_jobs, upload->ns, name, &found, err);

	if (!rc)
		rc = mover_find_place(job, upload->location, upload->source_ns, &place, err);
	if (!rc && !cairn_text_same(kube_label(found, CLUSTER_LABEL_REPOSITORY), place.key))
		rc = cairn_err_set(err, CAIRN_PRECONDITION,
				   "BackupStorageLocation '%s' was changed while the volume was "
				   "moved",
				   upload->location);
	return rc;
}

static int upload_complete(struct mover_job *job, const struct mover_upload *upload,
			   const char *name, const struct mover_work *work, struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	int rc = mover_status_ended(job->object, MOVER_PHASE_COMPLETED, NULL, cairn_now_ns(),
				    &patch, err);

	if (!rc)
		rc = mover_status_uploaded(patch, work, err);
	if (rc == CAIRN_INTERNAL)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the Job did not report the backup that it made");
	if (!rc)
		rc = upload_check_place(job, upload, name, err);
	if (!rc && upload->keep)
		rc = upload_note_copy(job, upload, name, patch, err);
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
	if (rc > 0)
		return upload_complete(job, &upload, names.name, &work, err);
	if (rc)
		return rc;
	job->again_ms = MOVER_LOOK_MS;
	return mover_show(job, &work, names.name, err);
}

/* A class may retain its volumes; those of Jobs are of no use. */
static int upload_drop_claim(struct mover_job *job, const struct cluster_names *names,
			     bool *ret_gone, struct cairn_err *err)
{
	kube_auto_json json_t *claim = NULL;
	const char *volume;
	int rc = mover_get(job, &kube_persistentvolumeclaims, names->ns, names->name, &claim, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	volume = kube_str(claim, "spec", "volumeName");
	if (volume)
		rc = mover_discard_volume(job, volume, names, err);
	return rc ? rc
		  : mover_remove(job, &kube_persistentvolumeclaims, names->ns, names->name,
				 ret_gone, err);
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
	if (!rc)
		rc = mover_remove(job, &kube_volumesnapshots, upload->ns, name, ret_gone, err);
	/* The content of a snapshot that stays has the policy Retain, and would stay too. */
	return rc || !upload->keep
		       ? rc
		       : mover_remove(job, &kube_volumesnapshotcontents, NULL, name, ret_gone, err);
}

/* Without a second snapshot, Velero's is removed with the storage's, as Velero would do it. */
static int upload_drop_source(struct mover_job *job, const struct mover_upload *upload,
			      struct cairn_err *err)
{
	cairn_cleanup(mover_found_done) struct mover_found found = {0};
	bool left = false;
	bool gone = true;
	int rc = upload->keep ? 0 : mover_check_leftover(job, upload, &found, &left, err);

	if (rc || !left)
		return rc;
	if (found.content)
		rc = mover_patch(job, &kube_volumesnapshotcontents, NULL, kube_name(found.content),
				 json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete"), true,
				 err);
	return rc ? rc
		  : mover_remove(job, &kube_volumesnapshots, upload->source_ns, upload->snapshot,
				 &gone, err);
}

/* A Job that was ended, or whose log was lost, may have stored its backup: nobody would know of
 * it. Asks for whatever it stored to be forgotten, before the Job goes. */
static int upload_forget(struct mover_job *job, const struct mover_upload *upload, const char *name,
			 struct cairn_err *err)
{
	const char *phase = kube_str(job->object, "status", "phase");
	kube_auto_json json_t *found = NULL;
	kube_auto_json json_t *request = NULL;
	int rc;

	if (cairn_text_same(phase, MOVER_PHASE_COMPLETED))
		return 0;
	rc = mover_get(job, &kube_jobs, upload->ns, name, &found, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = velero_forget_upload(job->object, &request, err);
	if (!rc)
		rc = kube_create(job->mover->client, KUBE_REF(&kube_configmaps, upload->ns, NULL),
				 request, &job->how, NULL, err);
	return rc == CAIRN_EXISTS ? 0 : rc;
}

int mover_upload_clean(struct mover_job *job, bool *ret_gone, struct cairn_err *err)
{
	struct mover_upload upload;
	struct cluster_names names;
	int rc = upload_begin(job, &upload, &names, err);

	*ret_gone = true;
	if (rc) /* nothing was made for a request that cannot be read */
		return rc == CAIRN_INVALID ? 0 : rc;
	rc = upload_forget(job, &upload, names.name, err);
	if (!rc)
		rc = mover_remove(job, &kube_jobs, upload.ns, names.name, ret_gone, err);
	if (!rc)
		rc = upload_drop_claim(job, &names, ret_gone, err);
	if (!rc)
		rc = upload_drop_snapshot(job, &upload, names.name, ret_gone, err);
	if (!rc && *ret_gone)
		rc = upload_drop_source(job, &upload, err);
	return rc;
}
