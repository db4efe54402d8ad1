/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_place.h"

#include <stdlib.h>

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_driver.h"
#include "backup/cluster/cluster_log.h"
#include "backup/cluster/cluster_run.h"
#include "backup/cluster/cluster_watch.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"

void backup_cluster_args_add(struct cluster_args *args, const char *const more[])
{
	for (; more && *more && args->n < CLUSTER_ARGS_MAX - 1; more++)
		args->at[args->n++] = *more;
	args->at[args->n] = NULL;
}

struct cluster_job_spec backup_cluster_job_of(const struct cluster_run *run,
					      const struct cluster_args *args)
{
	const struct cluster_options *o = run->options;

	return (struct cluster_job_spec){
		.names = &run->names,
		.image = run->image,
		.service_account = o->service_account,
		.secret = o->secret,
		.ca_key = o->ca_key,
		.repository = o->repository,
		.repository_claim = o->repository_claim,
		.args = args->at,
		.deadline_s = (o->timeout_ms + 999) / 1000,
		.keep_s = CLUSTER_KEEP_S,
		.patch = o->patch,
	};
}

static void cluster_place_tell(void *arg, const struct cluster_log_event *event)
{
	const struct cluster_run *run = arg;

	if (event->kind == CLUSTER_LOG_PROGRESS)
		backup_report(&run->options->progress, event->step, event->done, event->total);
	else if (event->kind == CLUSTER_LOG_REMARK)
		backup_say(&run->options->talk, "%s", event->text);
}

int backup_cluster_follow_job(struct cluster_run *run, const char *job, const char *claim,
			      json_t **ret, struct cairn_err *err)
{
	cairn_cleanup(backup_cluster_log_done) struct cluster_log log = {.tell = cluster_place_tell,
									 .arg = run};
	int rc = backup_cluster_follow(run, job, claim, &log, err);

	if (rc)
		return rc;
	*ret = json_incref(log.result);
	return 0;
}

/* Rejects drivers that need an attach step, which only Kubernetes'
 * attach/detach controller can do. */
static int refuse_attaching(struct cluster_run *run, const json_t *volume, struct cairn_err *err)
{
	const char *name = kube_str(volume, "spec", "csi", "driver");
	kube_auto_json json_t *driver = NULL;
	bool attach = true; /* the API's default */
	int rc = backup_cluster_get(run, KUBE_REF(&kube_csidrivers, NULL, name ? name : ""),
				    &driver, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return cairn_err_wrap(err, "CSIDriver '%s'", name ? name : "");
	kube_bool(driver, &attach, "spec", "attachRequired");
	if (attach)
		return cairn_err_set(
			err, CAIRN_UNIMPLEMENTED,
			"the driver '%s' wants volumes attached first: let a Job do it",
			name ? name : "");
	return 0;
}

static int do_here(struct cluster_run *run, struct cluster_driver *driver,
		   const struct cluster_work *work, struct cairn_err *err)
{
	const struct cluster_direct *direct = &run->options->direct;
	kube_auto_json json_t *volume = NULL;
	struct cluster_device device = {.snapshot = work->snapshot, .objects = work->objects};
	int rc = backup_cluster_wait_volume(run, work->claim, &volume, err);
	int rc_back;

	if (!rc)
		rc = refuse_attaching(run, volume, err);
	if (!rc)
		rc = backup_cluster_driver_publish(driver, volume, run->names.name, &device.path,
						   err);
	if (!rc)
		rc = direct->run(direct->arg, &device, err);
	rc_back = backup_cluster_driver_unpublish(driver, rc ? NULL : err);
	return rc ? rc : rc_back;
}

int backup_cluster_work_do(struct cluster_run *run, struct cluster_driver *driver,
			   struct cluster_work *work, struct cairn_err *err)
{
	if (driver)
		return do_here(run, driver, work, err);
	return backup_cluster_follow_job(run, kube_name(run->job), work->claim, &work->summary,
					 err);
}

int backup_cluster_allow_mode_change(struct cluster_run *run, const json_t *snapshot,
				     struct cairn_err *err)
{
	const char *content = kube_str(snapshot, "status", "boundVolumeSnapshotContentName");

	if (!content)
		return cairn_err_set(err, CAIRN_INTERNAL, "VolumeSnapshot '%s' has no content",
				     kube_name(snapshot));
	return backup_cluster_patch(
		run, KUBE_REF(&kube_volumesnapshotcontents, NULL, content),
		json_pack("{s:{s:{s:s}}}", "metadata", "annotations", CLUSTER_MODE_CHANGE, "true"),
		err);
}

int backup_cluster_find_snapshot_class(struct cluster_run *run, const char *driver, char **ret,
				       struct cairn_err *err)
{
	const char *found = run->options->snapshot_class;
	kube_auto_json json_t *list = NULL;
	int rc = 0;

	if (found)
		rc = backup_cluster_get(run, KUBE_REF(&kube_volumesnapshotclasses, NULL, found),
					&list, err);
	else
		rc = backup_cluster_list(run, &kube_volumesnapshotclasses, NULL, &list, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc, "there is no VolumeSnapshotClass '%s'",
				     found ? found : "");
	if (!rc && !found)
		rc = backup_cluster_pick_class(list, driver, &found, err);
	if (rc)
		return rc;
	*ret = cairn_strdup(found);
	return *ret ? 0 : cairn_err_nomem(err, "class");
}
