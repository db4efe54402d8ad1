/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/informer.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "kube/deadline.h"
#include "kube/informer_impl.h"
#include "kube/object.h"
#include "kube/watch.h"

#define SETTLE_MS 1000

static void trim_managed_fields(json_t *object)
{
	kube_remove(object, "metadata", "managedFields");
}

void kube_informer_trim_metadata(json_t *object)
{
	static const char *const kept[] = {"name",
					   "namespace",
					   "uid",
					   "resourceVersion",
					   "creationTimestamp",
					   "deletionTimestamp"};
	const json_t *metadata = kube_at(object, "metadata");
	kube_auto_json json_t *trimmed = json_object();
	bool good = trimmed && json_is_object(metadata);

	for (size_t i = 0; good && i < sizeof(kept) / sizeof(kept[0]); i++) {
		json_t *value = json_object_get(metadata, kept[i]);

		good = !value || json_object_set(trimmed, kept[i], value) == 0;
	}
	/* Without memory for a copy the object stays as it is. */
	if (good)
		(void)json_object_set(object, "metadata", trimmed);
}

static int informer_copy_text(const char *text, char **ret, struct cairn_err *err)
{
	if (!text || !text[0])
		return 0;
	*ret = cairn_strdup(text);
	return *ret ? 0 : cairn_err_nomem(err, "informer");
}

int kube_informer_new(struct kube_client *client, const struct kube_informer_options *options,
		      struct kube_informer **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_informer_freep) struct kube_informer *informer =
		cairn_calloc(1, sizeof(*informer));
	int rc;

	if (!informer)
		return cairn_err_nomem(err, "informer");
	pthread_mutex_init(&informer->telling, NULL);
	pthread_mutex_init(&informer->lock, NULL);
	cairn_cond_init(&informer->changed);
	informer->client = client;
	informer->resource = options->resource;
	informer->trim = options->trim ? options->trim : trim_managed_fields;
	informer->resync_ms = options->resync_ms;
	rc = informer_copy_text(options->ns, &informer->ns, err);
	if (!rc)
		rc = informer_copy_text(options->label_selector, &informer->label_selector, err);
	if (!rc)
		rc = informer_copy_text(options->field_selector, &informer->field_selector, err);
	if (!rc)
		rc = kube_store_new(options->indexes, &informer->store, err);
	if (!rc)
		*ret = cairn_take(informer);
	return rc;
}

void kube_informer_free(struct kube_informer *informer)
{
	if (!informer)
		return;
	kube_informer_stop(informer);
	kube_store_free(informer->store);
	free(informer->ns);
	free(informer->label_selector);
	free(informer->field_selector);
	free(informer->version);
	pthread_cond_destroy(&informer->changed);
	pthread_mutex_destroy(&informer->lock);
	pthread_mutex_destroy(&informer->telling);
	free(informer);
}

int kube_informer_add_handler(struct kube_informer *informer, kube_informer_handler handler,
			      void *arg, struct cairn_err *err)
{
	json_t **objects;
	size_t n;
	int rc;

	/* The copy must not change while the handler receives it. */
	cairn_scoped_lock(&informer->telling);
	if (informer->n_handlers == KUBE_INFORMER_HANDLERS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "more than %d handlers",
				     KUBE_INFORMER_HANDLERS_MAX);
	rc = kube_informer_list(informer, &objects, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		handler(arg, NULL, objects[i]);
	kube_objects_free(objects, n);
	informer->handlers[informer->n_handlers].handler = handler;
	informer->handlers[informer->n_handlers++].arg = arg;
	return 0;
}

int kube_informer_start(struct kube_informer *informer, struct cairn_err *err)
{
	int rc = pthread_create(&informer->thread, NULL, kube_informer_run, informer);

	if (rc)
		return cairn_err_sys(err, rc, "thread of an informer");
	pthread_setname_np(informer->thread, "kube-informer");
	informer->running = true;
	return 0;
}

void kube_informer_stop(struct kube_informer *informer)
{
	pthread_mutex_lock(&informer->lock);
	atomic_store(&informer->stop, true);
	if (informer->watch)
		kube_watch_stop(informer->watch);
	pthread_cond_broadcast(&informer->changed);
	pthread_mutex_unlock(&informer->lock);
	if (informer->running)
		pthread_join(informer->thread, NULL);
	informer->running = false;
}

bool kube_informer_synced(struct kube_informer *informer)
{
	cairn_scoped_lock(&informer->lock);
	return informer->synced;
}

bool kube_informer_current(struct kube_informer *informer)
{
	uint64_t now = cairn_monotonic_ns();
	bool settled;

	cairn_scoped_lock(&informer->lock);
	settled = now - informer->turned_ns >= SETTLE_MS * CAIRN_NS_PER_MS;
	/* After a failure, a new watch first delivers the missed events: give it time. */
	if (informer->behind)
		return informer->watch && settled;
	/* A short gap between two consecutive watches is normal. */
	return informer->synced && (informer->watch || !settled);
}

void kube_informer_hurry(struct kube_informer *informer)
{
	cairn_scoped_lock(&informer->lock);
	informer->hurry = true;
	pthread_cond_broadcast(&informer->changed);
}

int kube_informer_wait_synced(struct kube_informer *informer, uint64_t wait_ms,
			      int (*check)(void *arg), void *arg, struct cairn_err *err)
{
	const struct kube_call how = {
		.timeout_ms = wait_ms ? wait_ms : 1, .check = check, .check_arg = arg};
	const struct kube_deadline patience = kube_deadline_of(&how, 0, &informer->stop);

	cairn_scoped_lock(&informer->lock);
	while (!informer->synced) {
		int rc = kube_deadline_check(&patience, err);

		if (rc == CAIRN_DEADLINE && informer->stats.last_error[0])
			return cairn_err_set(err, rc, "no list of %s in time: %s",
					     informer->resource->plural,
					     informer->stats.last_error);
		if (rc)
			return rc;
		kube_deadline_wait(&patience, &informer->changed, &informer->lock, UINT64_MAX);
	}
	return 0;
}

json_t *kube_informer_get(struct kube_informer *informer, const char *ns, const char *name)
{
	char key[KUBE_KEY_MAX];

	if (!kube_key_of(ns, name, key))
		return NULL;
	cairn_scoped_lock(&informer->lock);
	return json_incref(kube_store_get(informer->store, key));
}

int kube_informer_list(struct kube_informer *informer, json_t ***ret, size_t *ret_n,
		       struct cairn_err *err)
{
	cairn_scoped_lock(&informer->lock);
	return kube_store_list(informer->store, ret, ret_n, err);
}

int kube_informer_find(struct kube_informer *informer, const char *index, const char *text,
		       json_t ***ret, size_t *ret_n, struct cairn_err *err)
{
	cairn_scoped_lock(&informer->lock);
	return kube_store_find(informer->store, index, text, ret, ret_n, err);
}

void kube_objects_free(json_t **objects, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_decref(objects[i]);
	free(objects);
}

void kube_informer_stats(struct kube_informer *informer, struct kube_informer_stats *ret)
{
	cairn_scoped_lock(&informer->lock);
	*ret = informer->stats;
	ret->objects = kube_store_count(informer->store);
}
