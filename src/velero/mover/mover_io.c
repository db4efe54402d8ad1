/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "velero/location.h"
#include "velero/mover/mover_impl.h"

#define MANAGED "app.kubernetes.io/managed-by=cairn"

int mover_get(struct mover_job *job, const struct kube_resource *resource, const char *ns,
	      const char *name, json_t **ret, struct cairn_err *err)
{
	int rc = kube_get(job->mover->client, KUBE_REF(resource, ns, name), &job->how, ret, err);

	return rc ? cairn_err_wrap(err, "%s '%s'", resource->kind, name) : 0;
}

/* Names contain the request's uid; the labels show that it is no coincidence. */
static int io_existing(struct mover_job *job, const struct kube_resource *resource, const char *ns,
		       const json_t *object, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *found = NULL;
	int rc = mover_get(job, resource, ns, kube_name(object), &found, err);
	const char *run = rc ? NULL : kube_label(found, CLUSTER_LABEL_RUN);
	const char *ours = kube_label(object, CLUSTER_LABEL_RUN);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? cairn_err_set(err, CAIRN_ABORTED, "%s '%s' is going",
							     resource->kind, kube_name(object))
					     : rc;
	if (!run || !ours || strcmp(run, ours) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "there is a %s '%s' that the data mover did not make",
				     resource->kind, kube_name(object));
	if (kube_is_deleted(found))
		return cairn_err_set(err, CAIRN_ABORTED, "%s '%s' is going", resource->kind,
				     kube_name(object));
	if (ret)
		*ret = cairn_take(found);
	return 0;
}

int mover_create(struct mover_job *job, const struct kube_resource *resource, const json_t *object,
		 json_t **ret, struct cairn_err *err)
{
	const char *ns = resource->namespaced ? kube_namespace(object) : NULL;
	int rc = kube_create(job->mover->client, KUBE_REF(resource, ns, NULL), object, &job->how,
			     ret, err);

	if (rc == CAIRN_EXISTS)
		return io_existing(job, resource, ns, object, ret, err);
	return rc ? cairn_err_wrap(err, "make %s '%s'", resource->kind, kube_name(object)) : 0;
}

int mover_patch(struct mover_job *job, const struct kube_resource *resource, const char *ns,
		const char *name, json_t *patch, bool missing_ok, struct cairn_err *err)
{
	int rc = patch ? kube_patch(job->mover->client, KUBE_REF(resource, ns, name),
				    KUBE_PATCH_MERGE, patch, &job->how, NULL, err)
		       : cairn_err_nomem(err, "patch");

	json_decref(patch);
	if (rc == CAIRN_NOT_FOUND && missing_ok)
		return 0;
	return rc ? cairn_err_wrap(err, "change %s '%s'", resource->kind, name) : 0;
}

int mover_remove(struct mover_job *job, const struct kube_resource *resource, const char *ns,
		 const char *name, bool *ret_gone, struct cairn_err *err)
{
	/* A Job stays until its pods are gone: they hold the volume and the repository's lock. */
	const struct kube_delete_options options = {
		.propagation = resource == &kube_jobs ? "Foreground" : "Background"};
	int rc = kube_delete(job->mover->client, KUBE_REF(resource, ns, name), &options, &job->how,
			     NULL, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	*ret_gone = false;
	return rc ? cairn_err_wrap(err, "delete %s '%s'", resource->kind, name) : 0;
}

int mover_discard_volume(struct mover_job *job, const char *name, const struct cluster_names *names,
			 struct cairn_err *err)
{
	kube_auto_json json_t *volume = NULL;
	int rc = mover_get(job, &kube_persistentvolumes, NULL, name, &volume, err);

	/* Anyone who may write claims here can write which volume one names. */
	if (rc || !mover_is_volume_of(volume, names))
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	return mover_patch(
		job, &kube_persistentvolumes, NULL, name,
		json_pack("{s:{s:s}}", "spec", "persistentVolumeReclaimPolicy", "Delete"), true,
		err);
}

int mover_write(struct mover_job *job, json_t *patch, struct cairn_err *err)
{
	return mover_patch(job, job->resource, kube_namespace(job->object), kube_name(job->object),
			   patch, true, err);
}

int mover_find_place(struct mover_job *job, const char *location, const char *ns,
		     struct mover_place *ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = mover_get(job, &velero_locations, job->mover->ns, location, &object, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "there is no BackupStorageLocation '%s'", location);
	return rc ? rc : mover_place_of(object, ns, ret, err);
}

static bool io_label_is(const json_t *object, const char *label, const char *value)
{
	const char *found = kube_label(object, label);

	return found && strcmp(found, value) == 0;
}

static unsigned least_used(const unsigned *used, unsigned n)
{
	unsigned best = 0;

	for (unsigned i = 1; i < n; i++)
		if (used[i] < used[best])
			best = i;
	return best;
}

int mover_choose_slot(struct mover_job *job, const struct mover_place *place, unsigned *ret_slot,
		      bool *ret_busy, struct cairn_err *err)
{
	unsigned n = job->mover->settings.per_node;
	struct kube_list_query query = {.label_selector = MANAGED};
	cairn_auto_free unsigned *used = cairn_calloc(n, sizeof(*used));
	kube_auto_json json_t *list = NULL;
	bool gone = true;
	size_t i;
	json_t *item;
	int rc = used ? kube_list(job->mover->client, KUBE_REF(&kube_jobs, job->mover->ns, NULL),
				  &query, &job->how, &list, err)
		      : cairn_err_nomem(err, "slots");

	json_array_foreach(kube_at(list, "items"), i, item)
	{
		const char *slot =
			kube_str(item, "spec", "template", "metadata", "labels", MOVER_LABEL_SLOT);

		if (rc || backup_cluster_job_state(item, NULL) != CLUSTER_JOB_RUNNING)
			continue;
		if (slot && strlen(slot) == 1 && slot[0] >= '0' && (unsigned)(slot[0] - '0') < n)
			used[slot[0] - '0']++;
		if (io_label_is(item, CLUSTER_LABEL_ROLE, MOVER_ROLE_FORGET) &&
		    io_label_is(item, CLUSTER_LABEL_REPOSITORY, place->key))
			rc = mover_remove(job, &kube_jobs, job->mover->ns, kube_name(item), &gone,
					  err);
	}
	if (rc)
		return rc;
	*ret_slot = least_used(used, n);
	*ret_busy = !gone;
	return 0;
}

bool mover_is_late(const json_t *object, uint64_t timeout_ms)
{
	uint64_t since;

	return kube_time_parse(kube_str(object, "status", "acceptedTimestamp"), &since) &&
	       cairn_now_ns() > since + timeout_ms * CAIRN_NS_PER_MS;
}
