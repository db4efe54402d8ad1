/* SPDX-License-Identifier: Apache-2.0 */

/* Events, as shown by `kubectl describe`.
 *
 * Recording never blocks and never fails: events wait in a bounded queue for a writer
 * thread, and events that do not fit are counted and dropped. A repeated event becomes a
 * series with a count instead of a new object. An object that causes many different events
 * is limited to one in KUBE_EVENT_REFILL_MS after the first KUBE_EVENT_BURST.
 */
#ifndef CAIRN_KUBE_EVENT_H
#define CAIRN_KUBE_EVENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct kube_recorder;

#define KUBE_EVENTS_WAITING_MAX 1000
#define KUBE_EVENTS_SERIES_MAX  4096 /* remembered series; the oldest is evicted */
#define KUBE_EVENT_BURST        25
#define KUBE_EVENT_REFILL_MS    300000
#define KUBE_EVENT_SERIES_MS    360000 /* a repetition after this time is a new event */
#define KUBE_EVENT_NOTE_MAX     1024   /* bytes; the server's limit */

/* `component` ("cairn.dev/manager") and `instance` (NULL: the host name) identify the
 * reporter; they are copied. The client is borrowed. */
int kube_recorder_new(struct kube_client *client, const char *component, const char *instance,
		      struct kube_recorder **ret, struct cairn_err *err);

/* Writes queued events for at most `grace_ms`; later ones are dropped. The statistics are then
 * final. */
void kube_recorder_stop(struct kube_recorder *recorder, uint64_t grace_ms);

/* The same, then frees. Accepts NULL. */
void kube_recorder_free_after(struct kube_recorder *recorder, uint64_t grace_ms);
void kube_recorder_free(struct kube_recorder *recorder); /* 2 seconds */
CAIRN_DEFINE_CLEANUP(struct kube_recorder, kube_recorder_free);

/* Records an event about `object` (a whole object; apiVersion, kind and metadata are
 * read). `reason` is one word ("SnapshotReady"), `action` what was being done
 * ("Validate"), the note a sentence without secrets. `recorder` may be NULL. */
__attribute__((format(printf, 6, 7))) void kube_event_tell(struct kube_recorder *recorder,
							   const json_t *object, bool warning,
							   const char *reason, const char *action,
							   const char *note, ...);

struct kube_recorder_stats {
	uint64_t written; /* created or counted up */
	uint64_t dropped; /* queue full, rate limit of the object, or out of memory */
	uint64_t failed;  /* rejected by the server */
};

void kube_recorder_stats(struct kube_recorder *recorder, struct kube_recorder_stats *ret);

#endif
