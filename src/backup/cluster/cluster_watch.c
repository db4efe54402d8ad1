/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_run.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define LOOK_MS     300U
#define WARNING_MAX 200

/* --- pure --- */

static bool cluster_watch_holds(const json_t *object, const char *type)
{
	const char *status = kube_str(kube_condition(object, type), "status");

	return status && strcmp(status, "True") == 0;
}

static const char *text_or_none(const char *text)
{
	return text ? text : "";
}

enum backup_cluster_job_state backup_cluster_job_state(const json_t *job, const char **ret_why)
{
	enum backup_cluster_job_state state =
		cluster_watch_holds(job, "Complete") ? CLUSTER_JOB_COMPLETE
		: cluster_watch_holds(job, "Failed") ? CLUSTER_JOB_FAILED
						     : CLUSTER_JOB_RUNNING;

	if (ret_why)
		*ret_why = text_or_none(kube_str(
			kube_condition(job, state == CLUSTER_JOB_FAILED ? "Failed" : "Complete"),
			"message"));
	return state;
}

/* Failures that waiting does not resolve unless a user changes something. */
static bool is_hopeless(const char *reason)
{
	static const char *const reasons[] = {
		"CreateContainerConfigError", "CreateContainerError", "InvalidImageName",
		"ErrImageNeverPull",          "RunContainerError",
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(reason, reasons[i]) == 0)
			return true;
	return false;
}

struct cluster_pod backup_cluster_pod_look(const json_t *pod)
{
	const json_t *status = json_array_get(kube_at(pod, "status", "containerStatuses"), 0);
	const json_t *scheduled = kube_condition(pod, "PodScheduled");
	const json_t *waiting = kube_at(status, "state", "waiting");
	const json_t *ended = kube_at(status, "state", "terminated");
	struct cluster_pod view = {
		.started = ended || kube_at(status, "state", "running"),
		.reason = text_or_none(kube_str(ended ? ended : waiting, "reason")),
		.message = text_or_none(kube_str(ended ? ended : waiting, "message")),
	};

	if (!status && scheduled && !cluster_watch_holds(pod, "PodScheduled")) {
		view.reason = text_or_none(kube_str(scheduled, "reason"));
		view.message = text_or_none(kube_str(scheduled, "message"));
	}
	view.hopeless = waiting && is_hopeless(view.reason);
	return view;
}

const json_t *backup_cluster_newest(const json_t *list)
{
	const json_t *newest = NULL;
	size_t i;
	json_t *item;

	json_array_foreach(kube_at(list, "items"), i, item)
	{
		const char *at = text_or_none(kube_str(item, "metadata", "creationTimestamp"));

		if (!newest || strcmp(at, text_or_none(kube_str(newest, "metadata",
								"creationTimestamp"))) >= 0)
			newest = item;
	}
	return newest;
}

/* --- waiting --- */

/* The text of the last warning event about an object; "" if there is none. */
static void last_warning(struct cluster_run *run, const char *kind, const char *name,
			 char out[WARNING_MAX])
{
	char selector[400];
	struct kube_list_query query = {.field_selector = selector};
	struct kube_call how = {.timeout_ms = 5000, .once = true};
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *item;

	out[0] = '\0';
	snprintf(selector, sizeof(selector), "regarding.kind=%s,regarding.name=%s,type=Warning",
		 kind, name);
	if (kube_list(run->kube, KUBE_REF(&kube_events, run->names.ns, NULL), &query, &how, &list,
		      NULL) != 0)
		return;
	json_array_foreach(kube_at(list, "items"), i, item)
	{
		const char *note = kube_str(item, "note");

		if (note)
			snprintf(out, WARNING_MAX, ": %.190s", note);
	}
}

static bool is_late(const struct cluster_run *run, uint64_t begun_ns)
{
	return cairn_monotonic_ns() - begun_ns >= run->options->ready_ms * CAIRN_NS_PER_MS;
}

int backup_cluster_wait_snapshot(struct cluster_run *run, const char *name, json_t **ret,
				 struct cairn_err *err)
{
	uint64_t begun = cairn_monotonic_ns();

	for (;;) {
		kube_auto_json json_t *found = NULL;
		int rc = backup_cluster_get(
			run, KUBE_REF(&kube_volumesnapshots, run->names.ns, name), &found, err);
		const char *why;

		if (rc)
			return cairn_err_wrap(err, "VolumeSnapshot '%s/%s'", run->names.ns, name);
		if (kube_is(found, "status", "readyToUse")) {
			*ret = cairn_take(found);
			return 0;
		}
		why = kube_str(found, "status", "error", "message");
		if (is_late(run, begun))
			return cairn_err_set(err, CAIRN_DEADLINE,
					     "VolumeSnapshot '%s/%s' is not ready after %" PRIu64
					     " s%s%.200s",
					     run->names.ns, name, run->options->ready_ms / 1000,
					     why ? ": " : "", text_or_none(why));
		rc = backup_cluster_run_pause(run, LOOK_MS, err);
		if (rc)
			return rc;
	}
}

int backup_cluster_wait_volume(struct cluster_run *run, const char *claim, json_t **ret,
			       struct cairn_err *err)
{
	uint64_t begun = cairn_monotonic_ns();

	for (;;) {
		kube_auto_json json_t *found = NULL;
		char warning[WARNING_MAX];
		int rc = backup_cluster_get(
			run, KUBE_REF(&kube_persistentvolumeclaims, run->names.ns, claim), &found,
			err);
		const char *phase = kube_str(found, "status", "phase");
		const char *volume = kube_str(found, "spec", "volumeName");

		if (rc)
			return cairn_err_wrap(err, "claim '%s/%s'", run->names.ns, claim);
		if (phase && strcmp(phase, "Bound") == 0 && volume)
			return backup_cluster_get(
				run, KUBE_REF(&kube_persistentvolumes, NULL, volume), ret, err);
		if (is_late(run, begun)) {
			last_warning(run, "PersistentVolumeClaim", claim, warning);
			return cairn_err_set(err, CAIRN_DEADLINE,
					     "claim '%s/%s' has no volume after %" PRIu64 " s%s",
					     run->names.ns, claim, run->options->ready_ms / 1000,
					     warning);
		}
		rc = backup_cluster_run_pause(run, LOOK_MS, err);
		if (rc)
			return rc;
	}
}

int backup_cluster_not_started(struct cluster_run *run, const char *job, const char *claim,
			       const struct cluster_pod *pod, struct cairn_err *err)
{
	char warning[WARNING_MAX] = "";

	if (!pod->reason[0])
		last_warning(run, "Job", job, warning);
	else if (claim)
		last_warning(run, "PersistentVolumeClaim", claim, warning);
	return cairn_err_set(err, pod->hopeless ? CAIRN_PRECONDITION : CAIRN_DEADLINE,
			     "the pod of Job '%s/%s' does not start: %s%s%.160s%s", run->names.ns,
			     job, pod->reason[0] ? pod->reason : "it was not created",
			     pod->message[0] ? ", " : "", pod->message, warning);
}
