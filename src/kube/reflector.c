/* SPDX-License-Identifier: Apache-2.0 */

/* The thread of an informer: lists and watches in a loop. */
#include "kube/informer_impl.h"

#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "kube/deadline.h"
#include "kube/object.h"
#include "kube/watch.h"

#define PAUSE_MIN_MS 200
#define PAUSE_MAX_MS 30000

/* The longest pause while a caller misses an object. */
#define PAUSE_HURRY_MS 1000

/* Lists may be long, so they have a longer timeout. */
#define LIST_TIMEOUT_MS  120000
#define WATCH_TIMEOUT_MS 30000

/* A watch that ends sooner than this without an event counts as failed. */
#define SHORT_WATCH_MS 1000

static int reflector_stopped(void *arg)
{
	const struct kube_informer *informer = arg;

	return atomic_load(&informer->stop) ? CAIRN_CANCELLED : 0;
}

static void reflector_tell(struct kube_informer *informer, const json_t *old, const json_t *now)
{
	for (size_t i = 0; i < informer->n_handlers; i++)
		informer->handlers[i].handler(informer->handlers[i].arg, old, now);
}

/* Items of a list lack apiVersion and kind; add them. */
static int reflector_complete(const struct kube_informer *informer, json_t *object,
			      struct cairn_err *err)
{
	char version[KUBE_API_VERSION_MAX];
	int rc = 0;

	kube_api_version(informer->resource, version);
	if (!kube_at(object, "apiVersion"))
		rc = kube_set(object, err, json_string(version), "apiVersion");
	if (!rc && !kube_at(object, "kind"))
		rc = kube_set(object, err, json_string(informer->resource->kind), "kind");
	informer->trim(object);
	return rc;
}

static bool same_version(const json_t *a, const json_t *b)
{
	const char *version = kube_resource_version(a);

	return version[0] && strcmp(version, kube_resource_version(b)) == 0 &&
	       strcmp(kube_uid(a), kube_uid(b)) == 0;
}

/* Stores an object in the copy and reports it; with `telling` held. */
static int take_in(struct kube_informer *informer, const char *key, json_t *object,
		   struct cairn_err *err)
{
	kube_auto_json json_t *old = NULL;
	int rc;

	pthread_mutex_lock(&informer->lock);
	if (kube_store_count(informer->store) >= KUBE_INFORMER_OBJECTS_MAX &&
	    !kube_store_get(informer->store, key))
		rc = cairn_err_set(err, CAIRN_NO_SPACE, "more than %u objects",
				   KUBE_INFORMER_OBJECTS_MAX);
	else
		rc = kube_store_put(informer->store, key, object, &old, err);
	if (!rc && !(old && same_version(old, object)))
		informer->stats.events++;
	pthread_mutex_unlock(&informer->lock);
	if (rc)
		return rc;
	if (old && same_version(old, object))
		return 0;
	/* Deleted and created again between two lists: report both. */
	if (old && strcmp(kube_uid(old), kube_uid(object)) != 0) {
		reflector_tell(informer, old, NULL);
		reflector_tell(informer, NULL, object);
	} else {
		reflector_tell(informer, old, object);
	}
	return 0;
}

/* `last` is the final state, or NULL to report the one in the copy. */
static void take_out(struct kube_informer *informer, const char *key, const json_t *last)
{
	kube_auto_json json_t *old = NULL;

	pthread_mutex_lock(&informer->lock);
	old = kube_store_remove(informer->store, key);
	if (old)
		informer->stats.events++;
	pthread_mutex_unlock(&informer->lock);
	if (old)
		reflector_tell(informer, last ? last : old, NULL);
}

/* Returns the keys of the copy that are not in `listed`, as an array of strings. */
static json_t *reflector_gone(struct kube_informer *informer, const json_t *listed)
{
	json_t *keys = json_array();
	const char *key;
	json_t *object;

	cairn_scoped_lock(&informer->lock);
	json_object_foreach(kube_store_objects(informer->store), key, object)
	{
		if (keys && !json_object_get(listed, key) &&
		    json_array_append_new(keys, json_string_nocheck(key)) < 0) {
			json_decref(keys);
			keys = NULL;
		}
	}
	return keys;
}

static int reflector_replace(struct kube_informer *informer, json_t *list, struct cairn_err *err)
{
	kube_auto_json json_t *listed = json_object();
	kube_auto_json json_t *lost = NULL;
	json_t *items = kube_at(list, "items");
	json_t *object;
	size_t i;

	if (!listed)
		return cairn_err_nomem(err, "list");
	cairn_scoped_lock(&informer->telling);
	json_array_foreach(items, i, object)
	{
		char key[KUBE_KEY_MAX];
		int rc = reflector_complete(informer, object, err);

		if (!rc && !kube_key(object, key))
			continue; /* not an object: it has no name */
		if (!rc && json_object_set_new_nocheck(listed, key, json_null()) < 0)
			rc = cairn_err_nomem(err, "list");
		if (!rc)
			rc = take_in(informer, key, object, err);
		if (rc)
			return rc;
	}
	lost = reflector_gone(informer, listed);
	if (!lost)
		return cairn_err_nomem(err, "list");
	json_array_foreach(lost, i, object)
	{
		take_out(informer, json_string_value(object), NULL);
	}
	return 0;
}

static int set_version(struct kube_informer *informer, const char *version, struct cairn_err *err)
{
	char *copy = cairn_strdup(version);

	if (!copy)
		return cairn_err_nomem(err, "resource version");
	free(informer->version);
	informer->version = copy;
	return 0;
}

static void forget_version(struct kube_informer *informer)
{
	free(informer->version);
	informer->version = NULL;
}

static void note_contact(struct kube_informer *informer, uint64_t *count)
{
	cairn_scoped_lock(&informer->lock);
	if (count)
		++*count;
	informer->stats.last_contact_ns = cairn_monotonic_ns();
}

static void note_caught_up(struct kube_informer *informer)
{
	cairn_scoped_lock(&informer->lock);
	informer->behind = false;
}

static int list_all(struct kube_informer *informer, struct cairn_err *err)
{
	const struct kube_list_query query = {.label_selector = informer->label_selector,
					      .field_selector = informer->field_selector};
	const struct kube_call how = {
		.timeout_ms = LIST_TIMEOUT_MS, .check = reflector_stopped, .check_arg = informer};
	kube_auto_json json_t *list = NULL;
	int rc = kube_list(informer->client, KUBE_REF(informer->resource, informer->ns, NULL),
			   &query, &how, &list, err);

	if (!rc)
		rc = reflector_replace(informer, list, err);
	if (!rc)
		rc = set_version(informer, kube_resource_version(list), err);
	if (rc)
		return rc;
	note_contact(informer, &informer->stats.lists);
	note_caught_up(informer);
	cairn_scoped_lock(&informer->lock);
	informer->synced = true;
	informer->turned_ns = cairn_monotonic_ns();
	pthread_cond_broadcast(&informer->changed);
	return 0;
}

static int reflector_apply(struct kube_informer *informer, const struct kube_watch_event *event,
			   struct cairn_err *err)
{
	char key[KUBE_KEY_MAX];
	int rc = 0;

	if (event->type != KUBE_BOOKMARK) {
		rc = reflector_complete(informer, event->object, err);
		if (rc || !kube_key(event->object, key))
			return rc;
		cairn_scoped_lock(&informer->telling);
		if (event->type == KUBE_DELETED)
			take_out(informer, key, event->object);
		else
			rc = take_in(informer, key, event->object, err);
	}
	if (!rc && kube_resource_version(event->object)[0])
		rc = set_version(informer, kube_resource_version(event->object), err);
	note_contact(informer, NULL);
	note_caught_up(informer);
	return rc;
}

static void reflector_resync(struct kube_informer *informer)
{
	json_t **objects;
	size_t n;

	informer->resync_at_ns = cairn_monotonic_ns() + informer->resync_ms * CAIRN_NS_PER_MS;
	cairn_scoped_lock(&informer->telling);
	/* When memory is short, the next resync reports them. */
	if (kube_informer_list(informer, &objects, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		reflector_tell(informer, objects[i], objects[i]);
	kube_objects_free(objects, n);
}

static uint64_t until_resync_ms(struct kube_informer *informer)
{
	uint64_t now = cairn_monotonic_ns();

	if (informer->resync_ms == 0)
		return UINT64_MAX;
	if (now >= informer->resync_at_ns)
		reflector_resync(informer);
	return (informer->resync_at_ns - now) / CAIRN_NS_PER_MS + 1;
}

static int reflector_follow(struct kube_informer *informer, struct kube_watch *watch, bool *ret_any,
			    struct cairn_err *err)
{
	for (;;) {
		struct kube_watch_event event;
		int rc = kube_watch_next(watch, until_resync_ms(informer), &event, err);

		if (rc == CAIRN_DEADLINE)
			continue;
		if (rc <= 0)
			return rc;
		*ret_any = true;
		rc = reflector_apply(informer, &event, err);
		kube_watch_event_done(&event);
		if (rc)
			return rc;
	}
}

/* Publishes the watch, so that a stop can end it; CAIRN_CANCELLED if already stopped. */
static int reflector_show(struct kube_informer *informer, struct kube_watch *watch)
{
	cairn_scoped_lock(&informer->lock);
	informer->watch = watch;
	informer->turned_ns = cairn_monotonic_ns();
	return watch && atomic_load(&informer->stop) ? CAIRN_CANCELLED : 0;
}

static int watch_on(struct kube_informer *informer, struct cairn_err *err)
{
	cairn_cleanup(kube_watch_freep) struct kube_watch *watch = NULL;
	const struct kube_watch_options options = {.resource_version = informer->version,
						   .label_selector = informer->label_selector,
						   .field_selector = informer->field_selector,
						   .bookmarks = true,
						   .open_only = true};
	struct kube_status status = {0};
	struct kube_call how = {.timeout_ms = WATCH_TIMEOUT_MS,
				.check = reflector_stopped,
				.check_arg = informer,
				.status = &status};
	uint64_t began = cairn_monotonic_ns();
	bool any = false;
	int rc;

	rc = kube_watch_open(informer->client, KUBE_REF(informer->resource, informer->ns, NULL),
			     &options, &how, &watch, err);
	if (rc) {
		/* The server rejects this version; a new list returns another. */
		if (status.http && status.http != 429 && status.http != 503)
			forget_version(informer);
		return rc;
	}
	note_contact(informer, &informer->stats.watches);
	rc = reflector_show(informer, watch);
	if (!rc)
		rc = reflector_follow(informer, watch, &any, err);
	reflector_show(informer, NULL);
	if (rc == CAIRN_RANGE)
		forget_version(informer);
	if (rc == 0 && !any && cairn_monotonic_ns() - began < SHORT_WATCH_MS * CAIRN_NS_PER_MS)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the watch ended as it began");
	return rc;
}

/* Waits for the next attempt, or for the stop. */
static void pause_for(struct kube_informer *informer, uint64_t ms)
{
	uint64_t now = cairn_monotonic_ns();
	uint64_t until = now + ms * CAIRN_NS_PER_MS, soon = now + PAUSE_HURRY_MS * CAIRN_NS_PER_MS;
	const struct kube_deadline patience = {.deadline_ns = UINT64_MAX};

	cairn_scoped_lock(&informer->lock);
	informer->hurry = false;
	while (!atomic_load(&informer->stop) && cairn_monotonic_ns() < until) {
		if (informer->hurry && soon < until)
			until = soon;
		kube_deadline_wait(&patience, &informer->changed, &informer->lock, until);
	}
}

static void reflector_note_error(struct kube_informer *informer, const struct cairn_err *err)
{
	cairn_scoped_lock(&informer->lock);
	informer->stats.errors++;
	informer->behind = true;
	snprintf(informer->stats.last_error, sizeof(informer->stats.last_error), "%.*s",
		 (int)sizeof(informer->stats.last_error) - 1, err->msg);
}

void *kube_informer_run(void *arg)
{
	struct kube_informer *informer = arg;
	struct cairn_backoff backoff = {.first_ms = PAUSE_MIN_MS, .most_ms = PAUSE_MAX_MS};

	informer->resync_at_ns = cairn_monotonic_ns() + informer->resync_ms * CAIRN_NS_PER_MS;
	while (!atomic_load(&informer->stop)) {
		struct cairn_err err = {0};
		uint64_t began = cairn_monotonic_ns();
		int rc = 0;

		if (!informer->version)
			rc = list_all(informer, &err);
		if (!rc)
			rc = watch_on(informer, &err);
		if (rc == 0) {
			cairn_backoff_reset(&backoff);
			continue;
		}
		if (rc == CAIRN_CANCELLED && atomic_load(&informer->stop))
			break;
		reflector_note_error(informer, &err);
		/* After a longer success the next retry is soon. */
		if (cairn_monotonic_ns() - began > PAUSE_MAX_MS * CAIRN_NS_PER_MS)
			cairn_backoff_reset(&backoff);
		pause_for(informer, cairn_backoff_next(&backoff));
	}
	return NULL;
}
