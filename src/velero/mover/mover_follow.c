/* SPDX-License-Identifier: Apache-2.0 */

/* The state of a Job, its pod and the end of its log. Nothing is kept between two looks. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "velero/mover/mover_impl.h"

#define LOG_LINES    40U
#define LOG_BYTES    (1U << 20)
#define LOG_PATH_MAX 1024
#define LOG_LOST_MS  600000U /* how long the result of a completed Job is looked for */
#define HOPE_MS      60000U  /* a secret or an image may come later than the Job */

static void work_on_event(void *arg, const struct cluster_log_event *event)
{
	struct mover_work *work = arg;

	if (event->kind != CLUSTER_LOG_PROGRESS || event->total == 0)
		return;
	work->done = event->done;
	work->total = event->total;
}

static void mover_read_tail(struct mover_job *job, const char *pod, struct mover_work *work)
{
	char path[LOG_PATH_MAX];
	char *text = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path),
		 "/api/v1/namespaces/%s/pods/%s/log?container=cairn&timestamps=true&tailLines=%u"
		 "&limitBytes=%u",
		 job->mover->ns, pod, LOG_LINES, LOG_BYTES);
	work->log.tell = work_on_event;
	work->log.arg = work;
	if (kube_get_raw(job->mover->client, path, &job->how, &text, &n, NULL) == 0) {
		backup_cluster_log_take(&work->log, text, n);
		work->heard = true;
	}
	free(text);
}

static uint64_t age_ms(const json_t *object, const char *const path[])
{
	uint64_t since;
	uint64_t now = cairn_now_ns();

	if (!kube_time_parse(kube_str_path(object, path), &since) || now < since)
		return 0;
	return (now - since) / CAIRN_NS_PER_MS;
}

static void look_at_pod_of(struct mover_job *job, const json_t *pod, struct mover_work *work)
{
	struct cluster_pod view = backup_cluster_pod_look(pod);
	const char *node = kube_str(pod, "spec", "nodeName");

	work->started = view.started;
	work->hopeless =
		view.hopeless &&
		age_ms(pod, (const char *const[]){"metadata", "creationTimestamp", NULL}) > HOPE_MS;
	snprintf(work->node, sizeof(work->node), "%s", node ? node : "");
	snprintf(work->reason, sizeof(work->reason), "%.60s%s%.240s", view.reason,
		 view.message[0] ? ": " : "", view.message);
	if (view.started)
		mover_read_tail(job, kube_name(pod), work);
}

static int look_at_job(struct mover_job *job, const char *name, struct mover_work *ret,
		       struct cairn_err *err)
{
	char selector[CLUSTER_NAME_MAX + 16];
	struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *found = NULL;
	kube_auto_json json_t *pods = NULL;
	const json_t *pod;
	int rc = mover_get(job, &kube_jobs, job->mover->ns, name, &found, err);

	if (rc)
		return rc;
	/* The Job is read first: once it has ended, the log of its pod is complete. */
	ret->state = backup_cluster_job_state(found, NULL);
	snprintf(selector, sizeof(selector), "job-name=%s", name);
	rc = kube_list(job->mover->client, KUBE_REF(&kube_pods, job->mover->ns, NULL), &query,
		       &job->how, &pods, err);
	if (rc)
		return cairn_err_wrap(err, "pods of Job '%s'", name);
	pod = backup_cluster_newest(pods);
	if (pod)
		look_at_pod_of(job, pod, ret);
	/* Without a pod there is no log any more, however long it is looked for. */
	if (ret->state == CLUSTER_JOB_COMPLETE && pod && !ret->log.result &&
	    age_ms(found, (const char *const[]){"status", "completionTime", NULL}) < LOG_LOST_MS)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the log of Job '%s' cannot be read",
				     name);
	return 0;
}

static int judge_job(const struct mover_work *work, const char *name, struct cairn_err *err)
{
	const struct cluster_log *log = &work->log;

	if (work->state == CLUSTER_JOB_COMPLETE)
		return 1;
	if (work->state == CLUSTER_JOB_RUNNING && !work->hopeless)
		return 0;
	if (log->code)
		return cairn_err_set(err, CAIRN_PRECONDITION, "%s", log->error);
	return cairn_err_set(err, CAIRN_PRECONDITION, "Job '%s' failed%s%.160s%s%.120s", name,
			     work->reason[0] ? ": " : "", work->reason,
			     log->last_text[0] ? "; " : "", log->last_text);
}

int mover_look(struct mover_job *job, const char *name, struct mover_work *ret,
	       struct cairn_err *err)
{
	int rc = look_at_job(job, name, ret, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_PRECONDITION, "Job '%s' was deleted", name);
	return rc ? rc : judge_job(ret, name, err);
}

int mover_show(struct mover_job *job, const struct mover_work *work, const char *claim,
	       struct cairn_err *err)
{
	kube_auto_json json_t *found = NULL;
	json_t *patch = NULL;
	const char *text;
	uint64_t size = 0;
	int rc = mover_get(job, &kube_persistentvolumeclaims, job->mover->ns, claim, &found, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	text = kube_str(found, "status", "capacity", "storage");
	if (!text)
		text = kube_str(found, "spec", "resources", "requests", "storage");
	if (!text || !backup_cluster_quantity(text, &size))
		return 0;
	rc = mover_status_progress(job->object, work, size, cairn_now_ns(), &patch, err);
	return rc || !patch ? rc : mover_write(job, patch, err);
}
