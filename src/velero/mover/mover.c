/* SPDX-License-Identifier: Apache-2.0 */

/* The data mover "cairn" of Velero: controllers of DataUpload, DataDownload and of requests to
 * forget moved data.
 *
 * One volume is moved by one Job, on a Block-mode claim in Velero's namespace. The controllers
 * keep no state: each step reads the objects, does what comes next and is repeated until it
 * succeeds, so that any other process can go on. A finalizer keeps a request until everything
 * that was made for it is gone.
 */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "velero/controller.h"
#include "velero/controllers/controllers.h"
#include "velero/moved_backup.h"
#include "velero/mover/mover_impl.h"
#include "velero/velero_names.h"

#define WORKERS      4U
#define PAUSE_MIN_MS 200U
#define PAUSE_MAX_MS 15000U
#define DEADLINE_S   86400U /* Velero cancels after four hours by itself */

struct mover_steps {
	const struct kube_resource *resource;
	int (*prepare)(struct mover_job *job, struct cairn_err *err);
	int (*follow)(struct mover_job *job, struct cairn_err *err);
	int (*clean)(struct mover_job *job, bool *ret_gone, struct cairn_err *err);
};

static const struct mover_steps steps_of[MOVER_FORGETS] = {
	[MOVER_UPLOADS] = {&velero_data_uploads, mover_upload_prepare, mover_upload_follow,
			   mover_upload_clean},
	[MOVER_DOWNLOADS] = {&velero_data_downloads, mover_download_prepare, mover_download_follow,
			     mover_download_clean},
};

static bool mover_is_final(int rc)
{
	return rc == CAIRN_INVALID || rc == CAIRN_PRECONDITION || rc == CAIRN_UNIMPLEMENTED;
}

static int mover_end(struct mover_job *job, const char *phase, const char *message,
		     struct cairn_err *err)
{
	json_t *patch = NULL;
	int rc = mover_status_ended(job->object, phase, message, cairn_now_ns(), &patch, err);

	return rc ? rc : mover_write(job, patch, err);
}

/* A request that cannot be read is Failed at once; others are taken. */
static int mover_accept(struct mover_job *job, enum mover_kind kind, struct cairn_err *err)
{
	struct mover_download download;
	struct mover_upload upload;
	json_t *patch = NULL;
	int rc = kind == MOVER_UPLOADS ? mover_upload_view(job->object, &upload, err)
				       : mover_download_view(job->object, &download, err);

	if (!rc)
		rc = mover_status_accepted(job->object, cairn_now_ns(), &patch, err);
	return rc ? rc : mover_write(job, patch, err);
}

static int mover_cancel(struct mover_job *job, const struct mover_steps *steps,
			struct cairn_err *err)
{
	const char *phase = kube_str(job->object, "status", "phase");
	json_t *patch = NULL;
	bool gone = true;
	int rc;

	if (!phase || strcmp(phase, MOVER_PHASE_CANCELING) != 0) {
		rc = mover_status_phase(job->object, MOVER_PHASE_CANCELING, &patch, err);
		return rc ? rc : mover_write(job, patch, err);
	}
	rc = steps->clean(job, &gone, err);
	job->again_ms = MOVER_LOOK_MS;
	return rc || !gone ? rc : mover_end(job, MOVER_PHASE_CANCELED, "canceled", err);
}

static int mover_clean(struct mover_job *job, const struct mover_steps *steps,
		       struct cairn_err *err)
{
	json_t *patch = NULL;
	bool gone = true;
	int rc = steps->clean(job, &gone, err);

	job->again_ms = MOVER_LOOK_MS;
	if (rc || !gone)
		return rc;
	rc = mover_status_released(job->object, &patch, err);
	return rc ? rc : mover_write(job, patch, err);
}

static int mover_step_do(struct mover_job *job, enum mover_kind kind, struct cairn_err *err)
{
	const struct mover_steps *steps = &steps_of[kind];
	enum mover_step step = mover_step_of(job->object);
	int rc = 0;

	switch (step) {
	case MOVER_STEP_NONE:
		return 0;
	case MOVER_STEP_CLEAN:
		return mover_clean(job, steps, err);
	case MOVER_STEP_CANCEL:
		return mover_cancel(job, steps, err);
	case MOVER_STEP_ACCEPT:
		rc = mover_accept(job, kind, err);
		break;
	case MOVER_STEP_PREPARE:
		rc = steps->prepare(job, err);
		break;
	case MOVER_STEP_FOLLOW:
		rc = steps->follow(job, err);
		break;
	}
	if (!mover_is_final(rc))
		return rc;
	cairn_log(CAIRN_LOG_WARN, "a volume is not moved",
		  CAIRN_STR("request", kube_name(job->object)), CAIRN_STR("error", err->msg));
	return mover_end(job, MOVER_PHASE_FAILED, err->msg, err);
}

/* --- controllers --- */

static struct mover_settings mover_settings_of(const struct velero_common *common)
{
	unsigned per_node =
		common->per_node < MOVER_SLOTS_MAX ? (unsigned)common->per_node : MOVER_SLOTS_MAX;

	return (struct mover_settings){
		.image = common->image,
		.service_account = common->job_account,
		.patch = common->job_patch,
		.per_node = per_node ? per_node : 1,
		.deadline_s = DEADLINE_S,
	};
}

static int mover_look_at(void *arg, const char *key, uint64_t *ret_again_ms, struct cairn_err *err)
{
	struct mover_part *part = arg;
	char buf[KUBE_KEY_MAX];
	const char *ns, *name;
	kube_auto_json json_t *object = NULL;
	struct mover_job job = {.mover = part->mover, .again_ms = UINT64_MAX};
	int rc;

	kube_key_split(key, buf, &ns, &name);
	object = kube_informer_get(part->informer, ns, name);
	if (!object)
		return 0;
	job.object = object;
	job.how = kube_controller_call(part->common);
	job.resource =
		part->kind == MOVER_FORGETS ? &kube_configmaps : steps_of[part->kind].resource;
	rc = part->kind == MOVER_FORGETS ? mover_forget(&job, err)
					 : mover_step_do(&job, part->kind, err);
	*ret_again_ms = job.again_ms;
	/* Somebody else changed the object: the watch brings it. */
	if (rc == CAIRN_ABORTED)
		*ret_again_ms = MOVER_LOOK_MS;
	return rc == CAIRN_ABORTED ? 0 : rc;
}

static void mover_tell_error(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	cairn_log(CAIRN_LOG_WARN, "the data mover tries again", CAIRN_STR("object", key),
		  CAIRN_STR("error", err->msg));
}

static void mover_on_change(void *arg, const json_t *old, const json_t *now)
{
	struct mover_part *part = arg;

	(void)old;
	if (now)
		kube_controller_add_object(part->common, now);
}

static int mover_part_start(struct mover *mover, enum mover_kind kind, struct cairn_err *err)
{
	struct mover_part *part = &mover->parts[kind];
	const struct kube_controller_options common = {
		.workers = WORKERS,
		.pause_min_ms = PAUSE_MIN_MS,
		.pause_max_ms = PAUSE_MAX_MS,
		.elected = true,
		.look = mover_look_at,
		.failed = mover_tell_error,
		.arg = part,
	};
	const struct kube_informer_options watch = {
		.resource = kind == MOVER_FORGETS ? &kube_configmaps : steps_of[kind].resource,
		.ns = mover->ns,
		.label_selector = kind == MOVER_FORGETS ? VELERO_LABEL_FORGET "=true" : NULL,
	};
	int rc;

	part->mover = mover;
	part->kind = kind;
	rc = kube_controller_new(&common, &part->common, err);
	if (!rc)
		rc = kube_informer_new(mover->client, &watch, &part->informer, err);
	if (!rc)
		rc = kube_informer_add_handler(part->informer, mover_on_change, part, err);
	if (!rc)
		rc = kube_informer_start(part->informer, err);
	return rc ? rc : kube_controller_start(part->common, err);
}

static void mover_stop(void *controller)
{
	struct mover *mover = controller;

	for (int kind = 0; kind < MOVER_KINDS; kind++)
		kube_controller_stop(mover->parts[kind].common);
}

static void mover_free(void *controller)
{
	struct mover *mover = controller;

	mover_stop(mover);
	for (int kind = 0; kind < MOVER_KINDS; kind++) {
		kube_informer_free(mover->parts[kind].informer);
		kube_controller_free(mover->parts[kind].common);
	}
	free(mover);
}

static int mover_start(const struct velero_common *common, void **ret, struct cairn_err *err)
{
	struct mover *mover = cairn_calloc(1, sizeof(*mover));
	int rc = 0;

	if (!mover)
		return cairn_err_nomem(err, "data mover");
	mover->client = common->client;
	mover->ns = common->ns;
	mover->settings = mover_settings_of(common);
	for (int kind = 0; kind < MOVER_KINDS && !rc; kind++)
		rc = mover_part_start(mover, (enum mover_kind)kind, err);
	if (rc)
		mover_free(mover);
	else
		*ret = mover;
	return rc;
}

static void mover_lead(void *controller, bool leads)
{
	struct mover *mover = controller;

	for (int kind = 0; kind < MOVER_KINDS; kind++) {
		struct mover_part *part = &mover->parts[kind];

		if (kube_controller_lead(part->common, leads))
			kube_controller_add_all(part->common, part->informer);
	}
}

static bool mover_is_ready(void *controller)
{
	struct mover *mover = controller;

	for (int kind = 0; kind < MOVER_KINDS; kind++)
		if (!kube_informer_synced(mover->parts[kind].informer))
			return false;
	return true;
}

const struct velero_controller velero_mover_controller = {
	.name = "data mover",
	.start = mover_start,
	.lead = mover_lead,
	.stop = mover_stop,
	.free = mover_free,
	.is_ready = mover_is_ready,
};
