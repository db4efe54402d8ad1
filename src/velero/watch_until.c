/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/watch_until.h"

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/watch.h"

#define PAUSE_MS 250U /* after a failure */

struct waiting {
	struct kube_client *client;
	const struct kube_ref *ref;
	const struct kube_call *how;
	uint64_t deadline_ns;
	velero_condition *holds;
	void *arg;
};

static uint64_t left_ms(const struct waiting *w)
{
	uint64_t now = cairn_monotonic_ns();

	return now < w->deadline_ns ? (w->deadline_ns - now) / CAIRN_NS_PER_MS + 1 : 0;
}

/* Failures that a retry does not resolve. */
static bool watch_until_is_final(int rc)
{
	return rc == CAIRN_DENIED || rc == CAIRN_UNAUTHENTICATED || rc == CAIRN_INVALID ||
	       rc == CAIRN_CANCELLED || rc == CAIRN_NO_SPACE;
}

static bool call_is_over(const struct waiting *w)
{
	return w->how && w->how->check && w->how->check(w->how->check_arg);
}

/* Watches the object from its current version. Returns 1 and the object if the condition
 * holds, 0 if the watch has ended. A watch that fails temporarily also returns 0, and the
 * caller tries again. */
static int watch_until_follow(const struct waiting *w, const char *version, json_t **ret,
			      struct cairn_err *err)
{
	const struct kube_watch_options options = {.resource_version = version};
	cairn_cleanup(kube_watch_freep) struct kube_watch *watch = NULL;
	int rc = kube_watch_open(w->client, w->ref, &options, w->how, &watch, err);

	while (!rc) {
		struct kube_watch_event event;
		bool gone;
		int got = kube_watch_next(watch, left_ms(w), &event, err);

		if (got <= 0)
			return watch_until_is_final(got) ? got : 0;
		gone = event.type == KUBE_DELETED;
		if (event.type != KUBE_BOOKMARK)
			rc = w->holds(gone ? NULL : event.object, w->arg, err);
		if (rc == 1 && !gone)
			*ret = json_incref(event.object);
		kube_watch_event_done(&event);
	}
	return watch_until_is_final(rc) || rc == 1 ? rc : 0;
}

/* Reads the object and, if necessary, watches it; 0: try again. */
static int watch_until_look(const struct waiting *w, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = kube_get(w->client, w->ref, w->how, &object, err);

	if (rc == CAIRN_NOT_FOUND)
		rc = 0;
	if (rc)
		return watch_until_is_final(rc) ? rc : 0;
	rc = w->holds(object, w->arg, err);
	if (rc == 1)
		*ret = cairn_take(object);
	return rc || !object ? rc : watch_until_follow(w, kube_resource_version(object), ret, err);
}

int velero_watch_until(struct kube_client *client, const struct kube_ref *ref,
		       const struct kube_call *how, uint64_t deadline_ns, velero_condition *holds,
		       void *arg, json_t **ret, struct cairn_err *err)
{
	const struct waiting waiting = {client, ref, how, deadline_ns, holds, arg};
	kube_auto_json json_t *found = NULL;

	for (;;) {
		int rc = watch_until_look(&waiting, &found, err);

		if (rc < 0)
			return rc;
		if (rc == 1) {
			if (ret)
				*ret = cairn_take(found);
			return 0;
		}
		if (call_is_over(&waiting))
			return cairn_err_set(err, CAIRN_CANCELLED, "Velero does not wait any more");
		if (left_ms(&waiting) == 0)
			return cairn_err_set(err, CAIRN_DEADLINE,
					     "%s %s is not as it should be in time",
					     ref->resource->kind, ref->name);
		cairn_sleep_ms(PAUSE_MS);
	}
}
