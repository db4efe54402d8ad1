/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/event.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/wait.h"
#include "kube/deadline.h"
#include "kube/event_series.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/timestamp.h"

#define CALL_MS  10000
#define GRACE_MS 2000

/* Limits of the server. */
#define WORD_MAX       128 /* reason, action, controller, instance */
#define NAME_MAX_BYTES 253

struct kube_recorder {
	struct kube_client *client;
	char *component;
	char *instance;
	pthread_t thread;
	bool running;
	atomic_bool abandon; /* the grace period is over */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* guarded by lock */
	struct kube_event_series series;
	struct kube_recorder_stats stats;
	uint64_t end_ns; /* deadline of the thread; UINT64_MAX until the end begins */
	bool done;
};

/* Truncates a text to `max` bytes between characters. */
static void event_cut(char *text, size_t max)
{
	size_t n = strlen(text);

	if (n <= max)
		return;
	for (n = max; n > 0 && !cairn_utf8_valid(text, n); n--)
		;
	text[n] = '\0';
}

/* An event about a cluster-scoped object goes to this namespace. */
static const char *namespace_of(const json_t *object)
{
	const char *ns = kube_namespace(object);

	return ns[0] ? ns : "default";
}

/* Names the event after the object and the time. */
static void name_event(const json_t *object, uint64_t wall_ns, char out[NAME_MAX_BYTES + 1])
{
	char suffix[20];
	int room;

	snprintf(suffix, sizeof(suffix), ".%llx", (unsigned long long)wall_ns);
	room = NAME_MAX_BYTES - (int)strlen(suffix);
	snprintf(out, NAME_MAX_BYTES + 1, "%.*s%s", room, kube_name(object), suffix);
}

struct event_report {
	const json_t *object;
	bool warning;
	const char *reason;
	const char *action;
	const char *note;
	uint64_t wall_ns;
};

static json_t *event_new(const struct kube_recorder *recorder, const struct event_report *report)
{
	char name[NAME_MAX_BYTES + 1], time[KUBE_TIME_MAX];
	char reason[WORD_MAX + 1], action[WORD_MAX + 1];
	json_t *event = NULL;

	name_event(report->object, report->wall_ns, name);
	kube_time_micro(report->wall_ns, time);
	snprintf(reason, sizeof(reason), "%s", report->reason);
	snprintf(action, sizeof(action), "%s", report->action);
	event = kube_object_new(&kube_events, namespace_of(report->object), name);
	if (!event ||
	    json_object_update_new(
		    event,
		    json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "eventTime", time,
			      "reportingController", recorder->component, "reportingInstance",
			      recorder->instance, "action", action, "reason", reason, "note",
			      report->note, "type", report->warning ? "Warning" : "Normal",
			      "regarding", kube_reference_to(report->object))) < 0) {
		json_decref(event);
		return NULL;
	}
	return event;
}

/* The keys that identify equal events, and events of the same object. */
static char *object_key(const json_t *object)
{
	return cairn_printf("%s/%s/%s/%s", kube_str(object, "kind") ? kube_str(object, "kind") : "",
			    kube_namespace(object), kube_name(object), kube_uid(object));
}

static void event_add(struct kube_recorder *recorder, const struct event_report *report)
{
	cairn_auto_free char *object = object_key(report->object);
	cairn_auto_free char *key =
		object ? cairn_printf("%s|%d|%s|%s|%s", object, report->warning, report->reason,
				      report->action, report->note)
		       : NULL;
	json_t *event = key ? event_new(recorder, report) : NULL;

	cairn_scoped_lock(&recorder->lock);
	if (recorder->end_ns == UINT64_MAX && event &&
	    kube_event_series_add(&recorder->series, key, object, event, cairn_monotonic_ns(),
				  report->wall_ns)) {
		pthread_cond_signal(&recorder->changed);
		return;
	}
	if (recorder->end_ns != UINT64_MAX)
		json_decref(event);
	recorder->stats.dropped++;
}

void kube_event_tell(struct kube_recorder *recorder, const json_t *object, bool warning,
		     const char *reason, const char *action, const char *note, ...)
{
	char text[2 * KUBE_EVENT_NOTE_MAX];
	struct event_report report = {.object = object,
				      .warning = warning,
				      .reason = reason,
				      .action = action,
				      .note = text,
				      .wall_ns = cairn_now_ns()};
	va_list args;

	if (!recorder)
		return;
	va_start(args, note);
	vsnprintf(text, sizeof(text), note, args);
	va_end(args);
	event_cut(text, KUBE_EVENT_NOTE_MAX);
	event_add(recorder, &report);
}

static int event_abandoned(void *arg)
{
	const struct kube_recorder *recorder = arg;

	return atomic_load(&recorder->abandon) ? CAIRN_CANCELLED : 0;
}

/* One write, without the lock. */
static enum kube_event_outcome write_one(struct kube_recorder *recorder, const json_t *event,
					 bool created, const json_t *body)
{
	const struct kube_ref *ref =
		KUBE_REF(&kube_events, kube_namespace(event), kube_name(event));
	const struct kube_call how = {
		.timeout_ms = CALL_MS, .check = event_abandoned, .check_arg = recorder};
	int rc;

	if (!body)
		return KUBE_EVENT_LATER;
	if (created)
		rc = kube_patch(recorder->client, ref, KUBE_PATCH_MERGE, body, &how, NULL, NULL);
	else
		rc = kube_create(recorder->client, ref, body, &how, NULL, NULL);
	if (rc == 0 || (rc == CAIRN_EXISTS && !created))
		return KUBE_EVENT_WRITTEN;
	if (rc == CAIRN_NOT_FOUND && created)
		return KUBE_EVENT_GONE;
	return rc == CAIRN_UNAVAILABLE || rc == CAIRN_DEADLINE || rc == CAIRN_NO_SPACE
		       ? KUBE_EVENT_LATER
		       : KUBE_EVENT_LOST;
}

/* Writes the event at place `at`; with the lock held, which is released meanwhile. */
static void event_work_on(struct kube_recorder *recorder, size_t at)
{
	struct kube_event_one one = recorder->series.all[at];
	kube_auto_json json_t *body = kube_event_series_body(&one);
	kube_auto_json json_t *event = json_incref(one.event);
	enum kube_event_outcome outcome;

	/* No other thread writes it meanwhile; a repetition sets a new time. */
	recorder->series.all[at].due_ns = UINT64_MAX;
	pthread_mutex_unlock(&recorder->lock);
	outcome = write_one(recorder, event, one.created, body);
	pthread_mutex_lock(&recorder->lock);
	if (outcome == KUBE_EVENT_WRITTEN)
		recorder->stats.written++;
	if (!kube_event_series_settle(&recorder->series, at, one.number, one.count, outcome,
				      cairn_monotonic_ns()))
		recorder->stats.failed++;
}

/* Writes due events until the end; with the lock held. */
static void event_work(struct kube_recorder *recorder)
{
	const struct kube_deadline patience = {.deadline_ns = UINT64_MAX};

	for (;;) {
		uint64_t due_ns, now = cairn_monotonic_ns();
		size_t at = kube_event_series_next(&recorder->series, &due_ns);
		bool ending = recorder->end_ns != UINT64_MAX;

		if (now >= recorder->end_ns || (ending && at == KUBE_SLOT_NONE))
			return;
		/* At the end, counts are written before they are due. */
		if (at != KUBE_SLOT_NONE && (now >= due_ns || ending))
			event_work_on(recorder, at);
		else
			kube_deadline_wait(&patience, &recorder->changed, &recorder->lock, due_ns);
	}
}

static void *event_run(void *arg)
{
	struct kube_recorder *recorder = arg;

	cairn_scoped_lock(&recorder->lock);
	event_work(recorder);
	recorder->done = true;
	pthread_cond_broadcast(&recorder->changed);
	return NULL;
}

static char *own_name(const char *given)
{
	char host[WORD_MAX] = "";

	if (given && given[0])
		return cairn_strdup(given);
	(void)gethostname(host, sizeof(host) - 1);
	return cairn_strdup(host[0] ? host : "unknown");
}

int kube_recorder_new(struct kube_client *client, const char *component, const char *instance,
		      struct kube_recorder **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_recorder_freep) struct kube_recorder *recorder =
		cairn_calloc(1, sizeof(*recorder));
	int rc;

	if (!recorder)
		return cairn_err_nomem(err, "recorder");
	pthread_mutex_init(&recorder->lock, NULL);
	cairn_cond_init(&recorder->changed);
	recorder->client = client;
	recorder->end_ns = UINT64_MAX;
	recorder->component = cairn_strdup(component);
	recorder->instance = own_name(instance);
	if (!recorder->component || !recorder->instance ||
	    kube_event_series_init(&recorder->series) < 0)
		return cairn_err_nomem(err, "recorder");
	event_cut(recorder->component, WORD_MAX);
	event_cut(recorder->instance, WORD_MAX);
	rc = pthread_create(&recorder->thread, NULL, event_run, recorder);
	if (rc)
		return cairn_err_sys(err, rc, "thread of events");
	pthread_setname_np(recorder->thread, "kube-events");
	recorder->running = true;
	*ret = cairn_take(recorder);
	return 0;
}

/* Waits for the thread for the grace period, then cancels its current call. */
static void event_end(struct kube_recorder *recorder, uint64_t grace_ms)
{
	const struct kube_deadline patience = {.deadline_ns = cairn_monotonic_ns() +
							      grace_ms * CAIRN_NS_PER_MS};

	pthread_mutex_lock(&recorder->lock);
	recorder->end_ns = patience.deadline_ns;
	pthread_cond_broadcast(&recorder->changed);
	while (!recorder->done && kube_deadline_check(&patience, NULL) == 0)
		kube_deadline_wait(&patience, &recorder->changed, &recorder->lock, UINT64_MAX);
	pthread_mutex_unlock(&recorder->lock);
	atomic_store(&recorder->abandon, true);
	pthread_join(recorder->thread, NULL);
}

void kube_recorder_stop(struct kube_recorder *recorder, uint64_t grace_ms)
{
	if (recorder->running)
		event_end(recorder, grace_ms);
	recorder->running = false;
}

void kube_recorder_free_after(struct kube_recorder *recorder, uint64_t grace_ms)
{
	if (!recorder)
		return;
	kube_recorder_stop(recorder, grace_ms);
	kube_event_series_done(&recorder->series);
	pthread_cond_destroy(&recorder->changed);
	pthread_mutex_destroy(&recorder->lock);
	free(recorder->component);
	free(recorder->instance);
	free(recorder);
}

void kube_recorder_free(struct kube_recorder *recorder)
{
	kube_recorder_free_after(recorder, GRACE_MS);
}

void kube_recorder_stats(struct kube_recorder *recorder, struct kube_recorder_stats *ret)
{
	cairn_scoped_lock(&recorder->lock);
	*ret = recorder->stats;
}
