/* SPDX-License-Identifier: Apache-2.0 */

/* Follows a Job by polling, so that neither a broken connection nor a rollout of
 * the API server ends it. */

#include "backup/cluster/cluster_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_log.h"
#include "backup/cluster/cluster_run.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/timestamp.h"

#define LOOK_FIRST_MS 300U
#define LOOK_MS       1000U
#define MISSES_MAX    10U
#define HOPE_MS       15000U /* a secret may come a little later than the Job */
#define LOG_BYTES     (4U << 20)
#define LOG_PATH_MAX  1024
#define CALL_MS       20000U
#define UID_TEXT_MAX  64
#define POD_NAME_MAX  256

struct following {
	struct cluster_run *run;
	const char *job;
	const char *claim;
	struct cluster_log *log;
	uint64_t begun_ns; /* when waiting for the pod began */
	uint64_t heard_ns; /* when the API server last answered */
	uint64_t hopeless_ns;
	char uid[UID_TEXT_MAX];
	char pod[POD_NAME_MAX];
	bool started;
	bool log_refused;
	bool log_missed;                  /* the last read failed */
	unsigned misses;                  /* failed reads after the end of the Job */
	bool settled;                     /* the failure is permanent */
	char ended[CLUSTER_LOG_TEXT_MAX]; /* the termination message of its pod */
};

static uint64_t ms_since(uint64_t ns)
{
	return (cairn_monotonic_ns() - ns) / CAIRN_NS_PER_MS;
}

/* Cuts off an incomplete last line if the log was truncated at LOG_BYTES. */
static size_t whole_lines(const char *text, size_t n)
{
	while (n == LOG_BYTES && n > 0 && text[n - 1] != '\n')
		n--;
	return n;
}

static void read_log(struct following *f)
{
	struct kube_call how = {.timeout_ms = CALL_MS};
	char path[LOG_PATH_MAX];
	char since[KUBE_TIME_MAX];
	char *text = NULL;
	size_t n = 0;
	int len = snprintf(path, sizeof(path),
			   "/api/v1/namespaces/%s/pods/%s/log?container=cairn&timestamps=true"
			   "&limitBytes=%u",
			   f->run->names.ns, f->pod, LOG_BYTES);
	int rc;

	if (f->log->last_ns && len > 0 && (size_t)len < sizeof(path))
		snprintf(path + len, sizeof(path) - (size_t)len, "&sinceTime=%s",
			 kube_time(f->log->last_ns, since));
	rc = kube_get_raw(f->run->kube, path, &how, &text, &n, NULL);
	if (rc == CAIRN_DENIED && !f->log_refused) {
		f->log_refused = true;
		backup_say(
			&f->run->options->talk,
			"what the Job says cannot be shown: the right to get pods/log is missing");
	}
	f->log_missed = rc != 0 && rc != CAIRN_DENIED && rc != CAIRN_NOT_FOUND;
	if (rc == 0)
		backup_cluster_log_take(f->log, text, whole_lines(text, n));
	free(text);
}

static int look_at_pod(struct following *f, const json_t *pod, struct cairn_err *err)
{
	struct cluster_pod view = backup_cluster_pod_look(pod);
	uint64_t ready_ms = f->run->options->ready_ms;

	if (!pod)
		view = (struct cluster_pod){.reason = "", .message = ""};
	else if (strcmp(f->uid, kube_uid(pod)) != 0) {
		if (f->uid[0])
			backup_say(&f->run->options->talk, "the Job begins again, in pod '%s'",
				   kube_name(pod));
		snprintf(f->uid, sizeof(f->uid), "%s", kube_uid(pod));
		snprintf(f->pod, sizeof(f->pod), "%s", kube_name(pod));
		backup_cluster_log_restart(f->log);
		f->begun_ns = cairn_monotonic_ns();
	}
	f->started = view.started;
	if (view.started) {
		snprintf(f->ended, sizeof(f->ended), "%s%s%.280s", view.reason,
			 view.message[0] ? ": " : "", view.message);
		read_log(f);
		return 0;
	}
	if (!view.hopeless)
		f->hopeless_ns = 0;
	else if (!f->hopeless_ns)
		f->hopeless_ns = cairn_monotonic_ns();
	f->settled = (f->hopeless_ns && ms_since(f->hopeless_ns) >= HOPE_MS) ||
		     ms_since(f->begun_ns) >= ready_ms;
	return f->settled ? backup_cluster_not_started(f->run, f->job, f->claim, &view, err) : 0;
}

static int cluster_follow_failure(struct following *f, const json_t *job, const char *why,
				  struct cairn_err *err)
{
	const struct cluster_log *log = f->log;
	const char *reason = kube_str(kube_condition(job, "Failed"), "reason");

	f->settled = true;
	/* Its pod was terminated, so its log has no better reason. */
	if (reason && strcmp(reason, "DeadlineExceeded") == 0)
		return cairn_err_set(err, CAIRN_DEADLINE,
				     "Job '%s/%s' did not end within %" PRIu64 " s",
				     f->run->names.ns, f->job, f->run->options->timeout_ms / 1000);
	if (log->code)
		return cairn_err_set(err, log->code, "%s", log->error);
	return cairn_err_set(err, CAIRN_ABORTED, "Job '%s/%s' failed: %.160s%s%.160s%s%.120s",
			     f->run->names.ns, f->job, why, f->ended[0] ? "; " : "", f->ended,
			     log->last_text[0] ? "; " : "", log->last_text);
}

/* Returns 1 if the Job has succeeded, 0 while it runs. */
static int cluster_follow_look(struct following *f, struct cairn_err *err)
{
	const struct kube_ref job = {
		.resource = &kube_jobs, .ns = f->run->names.ns, .name = f->job};
	struct kube_call how = {.timeout_ms = CALL_MS};
	struct kube_list_query query = {0};
	kube_auto_json json_t *found = NULL;
	kube_auto_json json_t *pods = NULL;
	char selector[CLUSTER_NAME_MAX + 16];
	enum backup_cluster_job_state state;
	const char *why;
	int rc = kube_get(f->run->kube, &job, &how, &found, err);

	snprintf(selector, sizeof(selector), "job-name=%s", f->job);
	query.label_selector = selector;
	if (rc == CAIRN_NOT_FOUND && !backup_cluster_passes(f->run, rc))
		return cairn_err_set(err, CAIRN_ABORTED, "somebody deleted Job '%s/%s'", job.ns,
				     f->job);
	/* Read the Job first: once it has ended, the log of its pod is
	 * complete. */
	state = backup_cluster_job_state(found, &why);
	if (!rc)
		rc = kube_list(f->run->kube, KUBE_REF(&kube_pods, job.ns, NULL), &query, &how,
			       &pods, err);
	if (rc)
		return rc;
	f->heard_ns = cairn_monotonic_ns();
	if (state == CLUSTER_JOB_RUNNING || backup_cluster_newest(pods))
		rc = look_at_pod(f, backup_cluster_newest(pods), err);
	/* Retry a few times to read the end of its log. */
	if (state == CLUSTER_JOB_COMPLETE)
		return !f->log_missed || f->misses++ == MISSES_MAX;
	if (state == CLUSTER_JOB_FAILED)
		return cluster_follow_failure(f, found, why, err);
	return rc;
}

int backup_cluster_follow(struct cluster_run *run, const char *job, const char *claim,
			  struct cluster_log *log, struct cairn_err *err)
{
	struct following f = {.run = run, .job = job, .claim = claim, .log = log};
	bool silent = false;
	int rc;

	f.begun_ns = f.heard_ns = cairn_monotonic_ns();
	for (;;) {
		rc = backup_cluster_run_pause(run, f.started ? LOOK_MS : LOOK_FIRST_MS, err);
		if (rc)
			return rc;
		rc = cluster_follow_look(&f, err);
		if (rc > 0)
			return 0;
		if (rc == 0)
			silent = false;
		else if (f.settled || !backup_cluster_passes(run, rc))
			return rc;
		else if (ms_since(f.heard_ns) >= CLUSTER_OUTAGE_MS)
			return cairn_err_wrap(err, "the API server does not answer any more");
		else if (!silent) {
			silent = true;
			backup_say(&run->options->talk,
				   "the API server does not answer; the Job goes on meanwhile");
		}
	}
}
