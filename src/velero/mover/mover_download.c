/* SPDX-License-Identifier: Apache-2.0 */

/* The steps of a DataDownload.
 *
 * The Job writes the volume of a Block-mode claim in Velero's namespace. Then a second
 * PersistentVolume of the same storage volume is made, in the mode and with the label that the
 * restored claim waits for, and the first one is deleted without it. The first volume is
 * retained before its claim goes, and its name is noted before that, so that at no point a
 * killed controller loses it.
 */

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/mover/mover_impl.h"

static int download_begin(struct mover_job *job, struct mover_download *download,
			  struct cluster_names *names, struct cairn_err *err)
{
	int rc = mover_download_view(job->object, download, err);

	return rc ? rc
		  : mover_names_of(job->object, MOVER_ROLE_DOWNLOAD, download->claim, NULL, names,
				   err);
}

static int download_make(struct mover_job *job, const struct mover_download *download,
			 struct cluster_names *names, const json_t *target, bool *ret_busy,
			 struct cairn_err *err)
{
	cairn_cleanup(mover_place_done) struct mover_place place = {0};
	kube_auto_json json_t *object = NULL;
	kube_auto_json json_t *claim = NULL;
	unsigned slot = 0;
	int rc = mover_find_place(job, download->location, download->source_ns, &place, err);

	if (!rc)
		rc = mover_names_of(job->object, MOVER_ROLE_DOWNLOAD, download->claim, &place,
				    names, err);
	if (!rc)
		rc = mover_choose_slot(job, &place, &slot, ret_busy, err);
	if (rc || *ret_busy)
		return rc;
	rc = mover_download_job(&job->mover->settings, download, names, &place, job->object, slot,
				&object, err);
	if (!rc)
		rc = mover_create(job, &kube_jobs, object, NULL, err);
	if (!rc)
		rc = mover_download_claim(names, download, target, job->object, &claim, err);
	return rc ? rc : mover_create(job, &kube_persistentvolumeclaims, claim, NULL, err);
}

int mover_download_prepare(struct mover_job *job, struct cairn_err *err)
{
	struct mover_download download;
	struct cluster_names names;
	kube_auto_json json_t *target = NULL;
	json_t *patch = NULL;
	bool busy = false;
	int rc = download_begin(job, &download, &names, err);

	if (!rc)
		rc = mover_check_download(job, &download, &target, err);
	if (rc)
		return rc;
	job->again_ms = MOVER_LOOK_MS;
	if (!target)
		return mover_is_late(job->object, download.timeout_ms)
			       ? cairn_err_set(err, CAIRN_PRECONDITION, "there is no claim '%s/%s'",
					       download.target_ns, download.claim)
			       : 0;
	rc = download_make(job, &download, &names, target, &busy, err);
	if (rc || busy)
		return rc;
	rc = mover_status_phase(job->object, MOVER_PHASE_PREPARED, &patch, err);
	return rc ? rc : mover_write(job, patch, err);
}

/* --- after the Job --- */

/* Notes the volume that was written, then retains it. Returns 1 when that was done before. */
static int download_retain(struct mover_job *job, const struct cluster_names *names,
			   struct cairn_err *err)
{
	const char *noted = kube_annotation(job->object, MOVER_ANNOTATION_VOLUME);
	kube_auto_json json_t *claim = NULL;
	const char *volume;
	int rc;

	if (noted)
		return 1;
	rc = mover_get(job, &kube_persistentvolumeclaims, names->ns, names->name, &claim, err);
	volume = rc ? NULL : kube_str(claim, "spec", "volumeName");
	if (rc == CAIRN_NOT_FOUND || (!rc && !volume))
		return cairn_err_set(err, CAIRN_PRECONDITION, "the restored volume is gone");
	if (!rc)
		rc = mover_write(job,
				 json_pack("{s:{s:{s:s}}}", "metadata", "annotations",
					   MOVER_ANNOTATION_VOLUME, volume),
				 err);
	job->again_ms = 0; /* the note must be read back first */
	return rc;
}

/* The second PersistentVolume; *ret_made is false while the claim is not there. */
static int download_make_volume(struct mover_job *job, const struct mover_download *download,
				const struct cluster_names *names, const json_t *written,
				struct cairn_err *err)
{
	kube_auto_json json_t *target = NULL;
	kube_auto_json json_t *class_object = NULL;
	kube_auto_json json_t *volume = NULL;
	const char *class_name;
	int rc = mover_get(job, &kube_persistentvolumeclaims, download->target_ns, download->claim,
			   &target, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_PRECONDITION, "claim '%s/%s' was deleted",
				     download->target_ns, download->claim);
	class_name = rc ? NULL : kube_str(target, "spec", "storageClassName");
	if (!rc && class_name && *class_name)
		rc = mover_get(job, &kube_storageclasses, NULL, class_name, &class_object, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	rc = mover_download_volume(names, written, target, class_object, &volume, err);
	return rc ? rc : mover_create(job, &kube_persistentvolumes, volume, NULL, err);
}

/* Returns 1 once the second volume exists and the first one is gone. */
static int download_exchange(struct mover_job *job, const struct mover_download *download,
			     const struct cluster_names *names, struct cairn_err *err)
{
	const char *noted = kube_annotation(job->object, MOVER_ANNOTATION_VOLUME);
	kube_auto_json json_t *written = NULL;
	bool gone = true;
	int rc = mover_get(job, &kube_persistentvolumes, NULL, noted, &written, err);

	if (rc == CAIRN_NOT_FOUND)
		return 1;
	if (rc)
		return rc;
	if (!mover_is_volume_of(written, names))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "PersistentVolume '%s' was not made for this restore", noted);
	rc = mover_patch(job, &kube_persistentvolumes, NULL, noted,
			 json_pack("{s:{s:s}}", "spec", "persistentVolumeReclaimPolicy", "Retain"),
			 false, err);
	/* The pods must be gone before another one uses the volume. */
	if (!rc)
		rc = mover_remove(job, &kube_jobs, names->ns, names->name, &gone, err);
	if (!rc)
		rc = mover_remove(job, &kube_persistentvolumeclaims, names->ns, names->name, &gone,
				  err);
	if (rc || !gone)
		return rc;
	rc = download_make_volume(job, download, names, written, err);
	return rc ? rc : mover_remove(job, &kube_persistentvolumes, NULL, noted, &gone, err);
}

/* The claim that the volume names does not exist any more. */
static bool download_is_released(const json_t *volume)
{
	return cairn_text_same(kube_str(volume, "status", "phase"), "Released");
}

static int download_complete(struct mover_job *job, const struct mover_download *download,
			     const struct cluster_names *names, struct cairn_err *err)
{
	kube_auto_json json_t *volume = NULL;
	kube_auto_json json_t *patch = NULL;
	const char *phase, *capacity;
	uint64_t size = 0;
	int rc = mover_get(job, &kube_persistentvolumes, NULL, names->name, &volume, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the restored volume is gone");
	if (rc)
		return rc;
	phase = kube_str(volume, "status", "phase");
	if (download_is_released(volume))
		return cairn_err_set(err, CAIRN_PRECONDITION, "claim '%s/%s' was deleted",
				     download->target_ns, download->claim);
	if (!phase || strcmp(phase, "Bound") != 0)
		return 0; /* not bound yet */
	capacity = kube_str(volume, "spec", "capacity", "storage");
	if (capacity)
		(void)backup_cluster_quantity(capacity, &size);
	size = download->size ? download->size : size;
	rc = mover_status_ended(job->object, MOVER_PHASE_COMPLETED, NULL, cairn_now_ns(), &patch,
				err);
	if (!rc)
		rc = kube_set(patch, err,
			      json_pack("{s:I,s:I}", "totalBytes", (json_int_t)size, "bytesDone",
					(json_int_t)size),
			      "status", "progress");
	return rc ? rc : mover_write(job, cairn_take(patch), err);
}

static int download_bind(struct mover_job *job, const struct mover_download *download,
			 const struct cluster_names *names, struct cairn_err *err)
{
	/* Again: the request may have been changed since it was accepted. */
	int rc = mover_check_restore(job, download, err);

	if (!rc)
		rc = download_retain(job, names, err);
	if (rc > 0)
		rc = download_exchange(job, download, names, err);
	return rc > 0 ? download_complete(job, download, names, err) : rc;
}

int mover_download_follow(struct mover_job *job, struct cairn_err *err)
{
	cairn_cleanup(mover_work_done) struct mover_work work = {0};
	struct mover_download download;
	struct cluster_names names;
	int rc = download_begin(job, &download, &names, err);

	if (rc)
		return rc;
	job->again_ms = MOVER_LOOK_MS / 2;
	if (kube_annotation(job->object, MOVER_ANNOTATION_VOLUME))
		return download_bind(job, &download, &names, err);
	rc = mover_look(job, names.name, &work, err);
	if (rc > 0)
		return download_bind(job, &download, &names, err);
	return rc ? rc : mover_show(job, &work, names.name, err);
}

/* --- the end --- */

/* The volume that the annotation names, unless it is gone or somebody else's. With the second
 * volume, the storage's belongs to the restored claim. */
static int download_drop_noted(struct mover_job *job, const struct cluster_names *names,
			       const char *noted, bool *ret_gone, struct cairn_err *err)
{
	kube_auto_json json_t *first = NULL;
	kube_auto_json json_t *second = NULL;
	int rc = mover_get(job, &kube_persistentvolumes, NULL, noted, &first, err);

	if (rc || !mover_is_volume_of(first, names))
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = mover_get(job, &kube_persistentvolumes, NULL, names->name, &second, err);
	if (rc == CAIRN_NOT_FOUND)
		return mover_discard_volume(job, noted, names, err);
	return rc ? rc : mover_remove(job, &kube_persistentvolumes, NULL, noted, ret_gone, err);
}

/* The second volume of a restore whose claim was deleted before it was bound: its data are in the
 * backup, so it goes even if the class retains volumes. */
static int download_drop_unbound(struct mover_job *job, const struct cluster_names *names,
				 struct cairn_err *err)
{
	kube_auto_json json_t *second = NULL;
	int rc;

	if (cairn_text_same(kube_str(job->object, "status", "phase"), MOVER_PHASE_COMPLETED))
		return 0;
	rc = mover_get(job, &kube_persistentvolumes, NULL, names->name, &second, err);
	if (rc || !download_is_released(second) ||
	    !cairn_text_same(kube_label(second, CLUSTER_LABEL_RUN), names->run))
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	return mover_patch(
		job, &kube_persistentvolumes, NULL, names->name,
		json_pack("{s:{s:s}}", "spec", "persistentVolumeReclaimPolicy", "Delete"), true,
		err);
}

int mover_download_clean(struct mover_job *job, bool *ret_gone, struct cairn_err *err)
{
	const char *noted = kube_annotation(job->object, MOVER_ANNOTATION_VOLUME);
	struct mover_download download;
	struct cluster_names names;
	kube_auto_json json_t *claim = NULL;
	const char *volume;
	int rc = download_begin(job, &download, &names, err);

	*ret_gone = true;
	if (rc) /* nothing was made for a request that cannot be read */
		return rc == CAIRN_INVALID ? 0 : rc;
	rc = mover_remove(job, &kube_jobs, names.ns, names.name, ret_gone, err);
	if (rc)
		return rc;
	rc = mover_get(job, &kube_persistentvolumeclaims, names.ns, names.name, &claim, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	volume = rc ? NULL : kube_str(claim, "spec", "volumeName");
	rc = 0;
	if (volume && !noted)
		rc = mover_discard_volume(job, volume, &names, err);
	if (!rc && noted)
		rc = download_drop_noted(job, &names, noted, ret_gone, err);
	if (!rc)
		rc = mover_remove(job, &kube_persistentvolumeclaims, names.ns, names.name, ret_gone,
				  err);
	return rc ? rc : download_drop_unbound(job, &names, err);
}
