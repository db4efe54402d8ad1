/* SPDX-License-Identifier: Apache-2.0 */

/* Decides which events are new, which repeat and which exceed the limit, and what to write
 * to the server next. The caller supplies the clock; not thread-safe. */
#ifndef CAIRN_KUBE_EVENT_SERIES_H
#define CAIRN_KUBE_EVENT_SERIES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/string_index.h"

/* A repetition is written at most this often. */
#define KUBE_EVENT_COUNT_MS 10000

/* Attempts to write an event while the server cannot be reached. */
#define KUBE_EVENT_TRIES 12

struct kube_event_one {
	char *key;        /* NULL in a free place */
	char *object;     /* the key of its object's allowance */
	json_t *event;    /* as it was or will be created */
	uint64_t number;  /* unique, so that a reused place is recognized */
	uint64_t due_ns;  /* when to write it; UINT64_MAX if nothing is to be written */
	uint64_t last_ns; /* when it happened last */
	uint64_t last_wall_ns;
	uint64_t count;
	bool created;
	unsigned failures;
};

/* The rate limit of one object. */
struct kube_event_allowance {
	char *object; /* NULL in a free place */
	double tokens;
	uint64_t at_ns;
};

struct kube_event_series {
	struct kube_string_index index;
	struct kube_event_one *all; /* KUBE_EVENTS_SERIES_MAX places */
	struct kube_string_index allowance_index;
	struct kube_event_allowance *allowances; /* as many */
	uint64_t numbers;
	size_t waiting; /* events not created yet */
};

int kube_event_series_init(struct kube_event_series *series); /* -1 when memory is short */
void kube_event_series_done(struct kube_event_series *series);

/* Adds an event and takes ownership of `event`. Returns false if it was dropped. */
bool kube_event_series_add(struct kube_event_series *series, const char *key, const char *object,
			   json_t *event, uint64_t now_ns, uint64_t wall_ns);

/* The place whose write is due first, or SIZE_MAX; *ret_due_ns is when. */
size_t kube_event_series_next(const struct kube_event_series *series, uint64_t *ret_due_ns);

/* The body to write for a place: the event to create, or the patch that updates its count.
 * The caller owns it; NULL when memory is short. */
json_t *kube_event_series_body(const struct kube_event_one *one);

enum kube_event_outcome {
	KUBE_EVENT_WRITTEN,
	KUBE_EVENT_LATER, /* the server cannot be reached */
	KUBE_EVENT_GONE,  /* the series cannot be updated: create it again */
	KUBE_EVENT_LOST,
};

/* Reports the outcome of writing the event `number` at `at` with that count. Returns false
 * if it will not be retried. */
bool kube_event_series_settle(struct kube_event_series *series, size_t at, uint64_t number,
			      uint64_t count, enum kube_event_outcome outcome, uint64_t now_ns);

#endif
