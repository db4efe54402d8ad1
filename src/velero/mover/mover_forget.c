/* SPDX-License-Identifier: Apache-2.0 */

/* Deletes moved data whose Backup was deleted, and what uploads that did not complete left.
 *
 * A ConfigMap names one backup of a repository, or the upload that it was made for. All of
 * one repository are forgotten by one Job, which prunes the repository afterwards. That needs
 * the repository's exclusive lock, so it waits until no volume is moved there, and is ended
 * when one is to be moved; the next try goes on with what is left.
 */

#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster_watch.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/object.h"
#include "velero/moved_backup.h"
#include "velero/mover/mover_impl.h"

#define IDS_MAX    100U /* of one Job; more are taken by the next */
#define BUSY_MS    3000U
#define FAILED_MS  60000U
#define MOVED_ONLY CLUSTER_LABEL_ROLE " in (" MOVER_ROLE_UPLOAD "," MOVER_ROLE_DOWNLOAD ")"

static bool forget_same_place(const json_t *object, const struct velero_forget *forget,
			      struct velero_forget *ret)
{
	return velero_forget_view(object, ret, NULL) == 0 &&
	       strcmp(ret->location, forget->location) == 0 && strcmp(ret->ns, forget->ns) == 0;
}

/* Whether the Job's command has that word. */
static bool forget_includes(const json_t *job, const char *word)
{
	const json_t *container =
		json_array_get(kube_at(job, "spec", "template", "spec", "containers"), 0);
	size_t i;
	json_t *arg;

	json_array_foreach(kube_at(container, "args"), i, arg)
	{
		const char *text = json_string_value(arg);

		if (text && strcmp(text, word) == 0)
			return true;
	}
	return false;
}

static int forget_names(struct mover_job *job, const struct mover_place *place,
			struct cluster_names *ret, struct cairn_err *err)
{
	struct cluster_names names = {.ns = job->mover->ns, .claim = "", .role = MOVER_ROLE_FORGET};
	int rc = backup_cluster_key("", names.key, err);

	if (rc)
		return rc;
	snprintf(names.run, sizeof(names.run), "%.8s", place->key);
	snprintf(names.repository, sizeof(names.repository), "%s", place->key);
	snprintf(names.name, sizeof(names.name), "cairn-forget-%s", place->key);
	*ret = names;
	return 0;
}

/* True while a volume is moved to or from the repository. */
static int forget_is_busy(struct mover_job *job, const struct mover_place *place, bool *ret,
			  struct cairn_err *err)
{
	char selector[256];
	struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *item;
	int rc;

	snprintf(selector, sizeof(selector), "%s=%s," MOVED_ONLY, CLUSTER_LABEL_REPOSITORY,
		 place->key);
	rc = kube_list(job->mover->client, KUBE_REF(&kube_jobs, job->mover->ns, NULL), &query,
		       &job->how, &list, err);
	if (rc)
		return rc;
	*ret = false;
	json_array_foreach(kube_at(list, "items"), i, item)
	{
		if (backup_cluster_job_state(item, NULL) == CLUSTER_JOB_RUNNING)
			*ret = true;
	}
	return 0;
}

static int forget_start(struct mover_job *job, const struct velero_forget *forget,
			const struct mover_place *place, const struct cluster_names *names,
			struct cairn_err *err)
{
	struct kube_informer *informer = job->mover->parts[MOVER_FORGETS].informer;
	cairn_auto_free struct velero_forget *others = cairn_calloc(IDS_MAX, sizeof(*others));
	const char *words[IDS_MAX + 1] = {forget->word};
	kube_auto_json json_t *object = NULL;
	json_t **all = NULL;
	size_t n = 0;
	size_t count = 1;
	int rc = others ? kube_informer_list(informer, &all, &n, err)
			: cairn_err_nomem(err, "list of backups");

	if (rc)
		return rc;
	for (size_t i = 0; i < n && count < IDS_MAX; i++)
		if (forget_same_place(all[i], forget, &others[count]) &&
		    strcmp(kube_name(all[i]), kube_name(job->object)) != 0) {
			words[count] = others[count].word;
			count++;
		}
	rc = mover_forget_job(&job->mover->settings, names, place, words, &object, err);
	kube_objects_free(all, n);
	return rc ? rc : mover_create(job, &kube_jobs, object, NULL, err);
}

/* The Job has done it: this request goes, and with the last one the Job. */
static int forget_finish(struct mover_job *job, const json_t *found, struct cairn_err *err)
{
	struct kube_informer *informer = job->mover->parts[MOVER_FORGETS].informer;
	json_t **all = NULL;
	size_t n = 0;
	bool last = true;
	bool gone = true;
	int rc = mover_remove(job, &kube_configmaps, job->mover->ns, kube_name(job->object), &gone,
			      err);

	if (!rc)
		rc = kube_informer_list(informer, &all, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct velero_forget other;

		if (strcmp(kube_name(all[i]), kube_name(job->object)) != 0 &&
		    velero_forget_view(all[i], &other, NULL) == 0 &&
		    forget_includes(found, other.word))
			last = false;
	}
	kube_objects_free(all, n);
	return last ? mover_remove(job, &kube_jobs, job->mover->ns, kube_name(found), &gone, err)
		    : 0;
}

static int forget_follow(struct mover_job *job, const struct velero_forget *forget,
			 const json_t *found, struct cairn_err *err)
{
	const char *why = "";
	enum backup_cluster_job_state state = backup_cluster_job_state(found, &why);
	bool gone = true;

	if (kube_is_deleted(found) || state == CLUSTER_JOB_RUNNING) {
		job->again_ms = BUSY_MS;
		return 0;
	}
	if (state == CLUSTER_JOB_COMPLETE && forget_includes(found, forget->word))
		return forget_finish(job, found, err);
	if (state == CLUSTER_JOB_FAILED)
		cairn_log(CAIRN_LOG_WARN, "backups are not forgotten yet",
			  CAIRN_STR("job", kube_name(found)), CAIRN_STR("error", why));
	job->again_ms = state == CLUSTER_JOB_FAILED ? FAILED_MS : MOVER_LOOK_MS;
	return mover_remove(job, &kube_jobs, job->mover->ns, kube_name(found), &gone, err);
}

/* Another cluster may write to a location that is read-only here. */
static bool forget_may_write(struct mover_job *job, const struct mover_place *place)
{
	if (!place->read_only)
		return true;
	cairn_log(CAIRN_LOG_INFO, "a moved backup is not forgotten in a location that is read-only",
		  CAIRN_STR("object", kube_name(job->object)));
	job->again_ms = FAILED_MS;
	return false;
}

int mover_forget(struct mover_job *job, struct cairn_err *err)
{
	cairn_cleanup(mover_place_done) struct mover_place place = {0};
	kube_auto_json json_t *found = NULL;
	struct velero_forget forget;
	struct cluster_names names;
	bool busy = false;
	int rc = velero_forget_view(job->object, &forget, err);

	if (!rc)
		rc = mover_find_place(job, forget.location, forget.ns, &place, err);
	if (rc == CAIRN_INVALID || rc == CAIRN_UNIMPLEMENTED) {
		cairn_log(CAIRN_LOG_WARN, "a moved backup cannot be forgotten",
			  CAIRN_STR("object", kube_name(job->object)),
			  CAIRN_STR("error", err->msg));
		return 0;
	}
	if (!rc)
		rc = forget_names(job, &place, &names, err);
	if (rc)
		return rc;
	rc = mover_get(job, &kube_jobs, names.ns, names.name, &found, err);
	if (!rc)
		return forget_follow(job, &forget, found, err);
	if (rc == CAIRN_NOT_FOUND)
		rc = forget_is_busy(job, &place, &busy, err);
	job->again_ms = BUSY_MS;
	if (rc || busy || !forget_may_write(job, &place))
		return rc;
	return forget_start(job, &forget, &place, &names, err);
}
