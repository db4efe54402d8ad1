/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/event_series.h"

#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kube/event.h"
#include "kube/object.h"
#include "kube/timestamp.h"

#define NEVER UINT64_MAX

/* A failed write is tried again after 1, 2, 4 … seconds, at most a minute. */
#define RETRY_MS     1000
#define RETRY_MAX_MS 60000

int kube_event_series_init(struct kube_event_series *series)
{
	memset(series, 0, sizeof(*series));
	series->all = cairn_calloc(KUBE_EVENTS_SERIES_MAX, sizeof(*series->all));
	series->allowances = cairn_calloc(KUBE_EVENTS_SERIES_MAX, sizeof(*series->allowances));
	if (!series->all || !series->allowances || kube_string_index_init(&series->index) < 0 ||
	    kube_string_index_init(&series->allowance_index) < 0) {
		kube_event_series_done(series);
		return -1;
	}
	return 0;
}

static void event_series_clear(struct kube_event_series *series, size_t at)
{
	struct kube_event_one *one = &series->all[at];

	if (one->key) {
		kube_string_index_remove(&series->index, one->key);
		if (!one->created)
			series->waiting--;
	}
	free(one->key);
	free(one->object);
	json_decref(one->event);
	memset(one, 0, sizeof(*one));
	one->due_ns = NEVER;
}

void kube_event_series_done(struct kube_event_series *series)
{
	for (size_t i = 0; series->all && i < KUBE_EVENTS_SERIES_MAX; i++)
		event_series_clear(series, i);
	for (size_t i = 0; series->allowances && i < KUBE_EVENTS_SERIES_MAX; i++)
		free(series->allowances[i].object);
	kube_string_index_done(&series->index);
	kube_string_index_done(&series->allowance_index);
	free(series->all);
	free(series->allowances);
	series->all = NULL;
	series->allowances = NULL;
}

/* Returns the allowance of an object: its own, or a recycled one that was unused longest. */
static struct kube_event_allowance *allowance_of(struct kube_event_series *series,
						 const char *object, uint64_t now_ns)
{
	size_t at = kube_string_index_find(&series->allowance_index, object);
	size_t oldest = 0;
	char *copy;

	if (at != KUBE_SLOT_NONE)
		return &series->allowances[at];
	for (at = 0; at < KUBE_EVENTS_SERIES_MAX && series->allowances[at].object; at++)
		if (series->allowances[at].at_ns < series->allowances[oldest].at_ns)
			oldest = at;
	if (at == KUBE_EVENTS_SERIES_MAX)
		at = oldest;
	copy = cairn_strdup(object);
	if (!copy || kube_string_index_put(&series->allowance_index, object, at) < 0) {
		free(copy);
		return NULL;
	}
	if (series->allowances[at].object)
		kube_string_index_remove(&series->allowance_index, series->allowances[at].object);
	free(series->allowances[at].object);
	series->allowances[at] = (struct kube_event_allowance){
		.object = copy, .tokens = KUBE_EVENT_BURST, .at_ns = now_ns};
	return &series->allowances[at];
}

static bool is_allowed(struct kube_event_series *series, const char *object, uint64_t now_ns)
{
	struct kube_event_allowance *left = allowance_of(series, object, now_ns);

	if (!left)
		return false;
	left->tokens += (double)(now_ns - left->at_ns) /
			((double)KUBE_EVENT_REFILL_MS * (double)CAIRN_NS_PER_MS);
	left->at_ns = now_ns;
	if (left->tokens > KUBE_EVENT_BURST)
		left->tokens = KUBE_EVENT_BURST;
	if (left->tokens < 1)
		return false;
	left->tokens -= 1;
	return true;
}

/* Returns a place for a new event: a free one, or that of the oldest event with nothing to
 * write. */
static size_t event_series_find_place(struct kube_event_series *series)
{
	size_t oldest = KUBE_SLOT_NONE;

	for (size_t at = 0; at < KUBE_EVENTS_SERIES_MAX; at++) {
		const struct kube_event_one *one = &series->all[at];

		if (!one->key)
			return at;
		if (one->created && one->due_ns == NEVER &&
		    (oldest == KUBE_SLOT_NONE || one->last_ns < series->all[oldest].last_ns))
			oldest = at;
	}
	return oldest;
}

static void event_series_repeat(struct kube_event_one *one, uint64_t now_ns, uint64_t wall_ns)
{
	one->count++;
	one->last_ns = now_ns;
	one->last_wall_ns = wall_ns;
	if (one->due_ns == NEVER)
		one->due_ns = now_ns + KUBE_EVENT_COUNT_MS * CAIRN_NS_PER_MS;
}

static bool add_new(struct kube_event_series *series, const char *key, const char *object,
		    json_t *event, uint64_t now_ns, uint64_t wall_ns)
{
	struct kube_event_one fresh = {.due_ns = now_ns,
				       .last_ns = now_ns,
				       .last_wall_ns = wall_ns,
				       .count = 1,
				       .number = ++series->numbers};
	size_t at;

	if (series->waiting >= KUBE_EVENTS_WAITING_MAX || !is_allowed(series, object, now_ns))
		return false;
	at = event_series_find_place(series);
	fresh.key = cairn_strdup(key);
	fresh.object = cairn_strdup(object);
	if (at == KUBE_SLOT_NONE || !fresh.key || !fresh.object) {
		free(fresh.key);
		free(fresh.object);
		return false;
	}
	event_series_clear(series, at);
	if (kube_string_index_put(&series->index, key, at) < 0) {
		free(fresh.key);
		free(fresh.object);
		return false;
	}
	fresh.event = json_incref(event);
	series->all[at] = fresh;
	series->waiting++;
	return true;
}

bool kube_event_series_add(struct kube_event_series *series, const char *key, const char *object,
			   json_t *event, uint64_t now_ns, uint64_t wall_ns)
{
	kube_auto_json json_t *owned = event;
	size_t at = kube_string_index_find(&series->index, key);

	if (!owned)
		return false;
	if (at != KUBE_SLOT_NONE) {
		struct kube_event_one *one = &series->all[at];

		if (!one->created ||
		    now_ns - one->last_ns < KUBE_EVENT_SERIES_MS * CAIRN_NS_PER_MS) {
			event_series_repeat(one, now_ns, wall_ns);
			return true;
		}
		event_series_clear(series, at);
	}
	return add_new(series, key, object, owned, now_ns, wall_ns);
}

size_t kube_event_series_next(const struct kube_event_series *series, uint64_t *ret_due_ns)
{
	size_t first = KUBE_SLOT_NONE;

	*ret_due_ns = NEVER;
	for (size_t at = 0; at < KUBE_EVENTS_SERIES_MAX; at++) {
		const struct kube_event_one *one = &series->all[at];

		if (one->key && one->due_ns < *ret_due_ns) {
			*ret_due_ns = one->due_ns;
			first = at;
		}
	}
	return first;
}

json_t *kube_event_series_body(const struct kube_event_one *one)
{
	char time[KUBE_TIME_MAX];
	kube_auto_json json_t *body = NULL;
	json_t *count;

	kube_time_micro(one->last_wall_ns, time);
	count = json_pack("{s:I, s:s}", "count", (json_int_t)one->count, "lastObservedTime", time);
	if (one->created)
		return json_pack("{s:o}", "series", count);
	body = kube_copy(one->event);
	if (one->count > 1 && kube_set(body, NULL, json_incref(count), "series") < 0) {
		json_decref(count);
		return NULL;
	}
	json_decref(count);
	return cairn_take(body);
}

static bool event_series_fail(struct kube_event_series *series, size_t at, bool later,
			      uint64_t now_ns)
{
	struct kube_event_one *one = &series->all[at];
	struct cairn_backoff backoff = {.first_ms = RETRY_MS, .most_ms = RETRY_MAX_MS};

	if (!later || ++one->failures >= KUBE_EVENT_TRIES) {
		event_series_clear(series, at);
		return false;
	}
	backoff.failures = one->failures - 1;
	one->due_ns = now_ns + cairn_backoff_ms(&backoff, UINT32_MAX) * CAIRN_NS_PER_MS;
	return true;
}

bool kube_event_series_settle(struct kube_event_series *series, size_t at, uint64_t number,
			      uint64_t count, enum kube_event_outcome outcome, uint64_t now_ns)
{
	struct kube_event_one *one = &series->all[at];

	if (!one->key || one->number != number)
		return true;
	if (outcome == KUBE_EVENT_LATER || outcome == KUBE_EVENT_LOST)
		return event_series_fail(series, at, outcome == KUBE_EVENT_LATER, now_ns);
	one->failures = 0;
	if (outcome == KUBE_EVENT_GONE) {
		if (one->created)
			series->waiting++;
		one->created = false;
		one->due_ns = now_ns;
		return true;
	}
	if (!one->created)
		series->waiting--;
	one->created = true;
	one->due_ns = one->count > count ? now_ns + KUBE_EVENT_COUNT_MS * CAIRN_NS_PER_MS : NEVER;
	return true;
}
