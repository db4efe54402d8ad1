/* SPDX-License-Identifier: Apache-2.0 */

/* Handles the remains of earlier runs, and snapshots that are kept. */

#include "backup/cluster/cluster_run.h"

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_watch.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define SELECTOR_MAX 256

/* Two names may have one key; their full names differ. */
static bool is_of_claim(const struct cluster_run *run, const json_t *object)
{
	const char *of = kube_annotation(object, CLUSTER_ANNOTATION_OF);

	return cairn_text_same(of, run->names.claim);
}

/* The Job of the same run did its work. */
static bool was_backed_up(const json_t *jobs, const json_t *snapshot)
{
	const char *run = kube_label(snapshot, CLUSTER_LABEL_RUN);
	size_t i;
	json_t *job;

	json_array_foreach(kube_at(jobs, "items"), i, job)
	{
		if (cairn_text_same(kube_label(job, CLUSTER_LABEL_RUN), run) &&
		    backup_cluster_job_state(job, NULL) == CLUSTER_JOB_COMPLETE)
			return true;
	}
	return false;
}

int backup_cluster_keep_base(struct cluster_run *run, const char *snapshot, const json_t *source,
			     struct cairn_err *err)
{
	return backup_cluster_patch(run, KUBE_REF(&kube_volumesnapshots, run->names.ns, snapshot),
				    json_pack("{s:{s:{s:s},s:[o]}}", "metadata", "labels",
					      CLUSTER_LABEL_ROLE, CLUSTER_ROLE_BASE,
					      "ownerReferences", backup_cluster_owner_of(source)),
				    err);
}

static int remove_all(struct cluster_run *run, const struct kube_resource *resource,
		      const json_t *list, struct cairn_err *err)
{
	int rc = 0;
	size_t i;
	json_t *item;

	json_array_foreach(kube_at(list, "items"), i, item)
	{
		if (rc || !is_of_claim(run, item) || kube_is_deleted(item))
			continue;
		backup_say(&run->options->talk, "an earlier run left %s '%s': it is taken away",
			   resource->kind, kube_name(item));
		rc = backup_cluster_remove(run, resource, kube_name(item), err);
	}
	return rc;
}

static int sweep_snapshots(struct cluster_run *run, const char *selector, const json_t *jobs,
			   const json_t *source, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	int rc = backup_cluster_list(run, &kube_volumesnapshots, selector, &list, err);
	size_t i;
	json_t *item;

	if (rc)
		return rc;
	for (i = json_array_size(kube_at(list, "items")); source && i-- > 0;) {
		item = json_array_get(kube_at(list, "items"), i);
		if (!is_of_claim(run, item) || !was_backed_up(jobs, item))
			continue;
		backup_say(
			&run->options->talk,
			"an earlier run made its backup before it was killed: VolumeSnapshot '%s' "
			"is the base now",
			kube_name(item));
		rc = backup_cluster_keep_base(run, kube_name(item), source, err);
		if (rc)
			return rc;
		json_array_remove(kube_at(list, "items"), i);
	}
	return remove_all(run, &kube_volumesnapshots, list, err);
}

int backup_cluster_run_sweep(struct cluster_run *run, const json_t *source, bool keep,
			     struct cairn_err *err)
{
	kube_auto_json json_t *jobs = NULL;
	kube_auto_json json_t *claims = NULL;
	char selector[SELECTOR_MAX];
	int rc = backup_cluster_selector(&run->names, run->names.role, selector, sizeof(selector),
					 err);

	if (!rc)
		rc = backup_cluster_list(run, &kube_jobs, selector, &jobs, err);
	if (!rc)
		rc = backup_cluster_list(run, &kube_persistentvolumeclaims, selector, &claims, err);
	if (!rc)
		rc = sweep_snapshots(run, selector, jobs, keep ? source : NULL, err);
	if (!rc)
		rc = remove_all(run, &kube_persistentvolumeclaims, claims, err);
	return rc ? rc : remove_all(run, &kube_jobs, jobs, err);
}

int backup_cluster_drop_bases(struct cluster_run *run, const char *except, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	char selector[SELECTOR_MAX];
	size_t i;
	json_t *item;
	int rc = backup_cluster_selector(&run->names, CLUSTER_ROLE_BASE, selector, sizeof(selector),
					 err);

	if (!rc)
		rc = backup_cluster_list(run, &kube_volumesnapshots, selector, &list, err);
	json_array_foreach(kube_at(list, "items"), i, item)
	{
		if (rc || !is_of_claim(run, item) || cairn_text_same(kube_name(item), except) ||
		    !cairn_text_same(kube_label(item, CLUSTER_LABEL_REPOSITORY),
				     run->names.repository))
			continue;
		rc = backup_cluster_remove(run, &kube_volumesnapshots, kube_name(item), err);
	}
	return rc;
}
