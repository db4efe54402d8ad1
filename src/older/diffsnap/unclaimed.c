/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/unclaimed.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/controller.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "older/diffsnap/live_drivers.h"

#define WORKERS      1U
#define PAUSE_MIN_MS 1000U
#define PAUSE_MAX_MS 60000U

/* A driver that has answered within this time is at work, however short after_ms is: a busy
 * node may stop its controller for seconds. */
#define LIVE_MS 30000U

struct diffsnap_unclaimed {
	struct diffsnap_unclaimed_options options; /* with `live` of our own */
	struct kube_informer *informer;
	struct kube_controller *common;
};

/* Milliseconds until the object is too old; 0 if it is, or has no valid time. */
static uint64_t unclaimed_time_left(const json_t *object, uint64_t after_ms)
{
	uint64_t made;
	uint64_t now = cairn_now_ns();
	uint64_t age_ms;

	if (!kube_time_parse(kube_str(object, "metadata", "creationTimestamp"), &made))
		return 0;
	age_ms = now > made ? (now - made) / CAIRN_NS_PER_MS : 0;
	return age_ms < after_ms ? after_ms - age_ms : 0;
}

/* Sets the reason, or *ret_busy if the driver's controller is at work; CAIRN_UNAVAILABLE while
 * the target is not ready. */
static int unclaimed_reason(const struct diffsnap_unclaimed_options *o, const json_t *object,
			    const struct kube_call *how, bool *ret_busy, struct cairn_err *ret_why,
			    struct cairn_err *err)
{
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot target = {0};
	const char *name = kube_str(object, "spec", "targetVolumeSnapshotName");
	int rc = kube_snapshot_get(o->client, kube_namespace(object), name ? name : "", how,
				   &target, err);

	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION || rc == CAIRN_INVALID) {
		*ret_why = *err;
		return 0;
	}
	if (rc)
		return rc;
	cairn_err_set(ret_why, CAIRN_UNIMPLEMENTED,
		      DIFFSNAP_UNCLAIMED_ERROR
		      " '%s' has answered: the driver does not offer "
		      "DIFFERENTIAL_SNAPSHOT_SERVICE, or no controller runs beside it",
		      target.driver);
	return diffsnap_live_drivers_find(o->live, o->client, how, target.driver,
					  o->after_ms > LIVE_MS ? o->after_ms : LIVE_MS, ret_busy,
					  err);
}

/* The version makes sure that an answer of the driver's controller is not overwritten. */
static int unclaimed_fail(const struct diffsnap_unclaimed_options *o, const json_t *object,
			  const char *why, const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *patch =
		json_pack("{s:{s:s, s:s}, s:{s:s, s:s}}", "metadata", "uid", kube_uid(object),
			  "resourceVersion", kube_str(object, "metadata", "resourceVersion"),
			  "status", "state", "Failure", "error", why);
	int rc;

	if (!patch)
		return cairn_err_nomem(err, "status");
	rc = kube_patch(o->client,
			KUBE_SUB(&kube_differentialsnapshots, kube_namespace(object),
				 kube_name(object), "status"),
			KUBE_PATCH_MERGE, patch, how, NULL, err);
	if (!rc)
		kube_event_tell(o->recorder, object, true, "Failure", "Validate", "%s", why);
	/* Deleted or changed: an event will follow. */
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_ABORTED ? 0 : rc;
}

int diffsnap_unclaimed_look(const struct diffsnap_unclaimed_options *options, const json_t *object,
			    const struct kube_call *how, uint64_t *ret_again_ms,
			    struct cairn_err *err)
{
	const char *state = kube_str(object, "status", "state");
	uint64_t left = unclaimed_time_left(object, options->after_ms);
	struct cairn_err why = {0};
	bool busy = false;
	int rc;

	if ((state && state[0]) || kube_is_deleted(object) || options->after_ms == UINT64_MAX)
		return 0;
	if (left > 0) {
		*ret_again_ms = left;
		return 0;
	}
	rc = unclaimed_reason(options, object, how, &busy, &why, err);
	if (rc == CAIRN_UNAVAILABLE) { /* not ready, or the API server is away */
		*ret_again_ms = 0;
		return 0;
	}
	if (!rc && busy) {
		*ret_again_ms = options->after_ms;
		return 0;
	}
	return rc ? rc : unclaimed_fail(options, object, why.msg, how, err);
}

static int unclaimed_look_at(void *arg, const char *key, uint64_t *ret_again_ms,
			     struct cairn_err *err)
{
	struct diffsnap_unclaimed *u = arg;
	const struct kube_call how = kube_controller_call(u->common);
	kube_auto_json json_t *object = NULL;
	char buf[KUBE_KEY_MAX];
	const char *ns;
	const char *name;

	kube_key_split(key, buf, &ns, &name);
	object = kube_informer_get(u->informer, ns, name);
	return object ? diffsnap_unclaimed_look(&u->options, object, &how, ret_again_ms, err) : 0;
}

static void unclaimed_on_change(void *arg, const json_t *old, const json_t *now)
{
	struct diffsnap_unclaimed *u = arg;

	diffsnap_live_drivers_note(u->options.live, old, now);
	if (now)
		kube_controller_add_object(u->common, now);
}

static void unclaimed_tell_error(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	cairn_log(CAIRN_LOG_WARN, "a DifferentialSnapshot without a controller waits",
		  CAIRN_STR("object", key), CAIRN_STR("error", err->msg));
}

int diffsnap_unclaimed_new(const struct diffsnap_unclaimed_options *options,
			   struct diffsnap_unclaimed **ret, struct cairn_err *err)
{
	const struct kube_informer_options watch = {.resource = &kube_differentialsnapshots,
						    .trim = kube_informer_trim_metadata};
	cairn_cleanup(diffsnap_unclaimed_freep) struct diffsnap_unclaimed *u =
		cairn_calloc(1, sizeof(*u));
	const struct kube_controller_options common = {
		.workers = WORKERS,
		.pause_min_ms = PAUSE_MIN_MS,
		.pause_max_ms = PAUSE_MAX_MS,
		.elected = true,
		.look = unclaimed_look_at,
		.failed = unclaimed_tell_error,
		.arg = u,
	};
	int rc;

	if (!u)
		return cairn_err_nomem(err, "controller");
	u->options = *options;
	u->options.live = NULL;
	rc = diffsnap_live_drivers_new(&u->options.live, err);
	if (!rc)
		rc = kube_controller_new(&common, &u->common, err);
	if (!rc)
		rc = kube_informer_new(options->client, &watch, &u->informer, err);
	if (!rc)
		rc = kube_informer_add_handler(u->informer, unclaimed_on_change, u, err);
	if (!rc)
		rc = kube_informer_start(u->informer, err);
	if (!rc)
		rc = kube_controller_start(u->common, err);
	if (rc)
		return rc;
	*ret = cairn_take(u);
	return 0;
}

void diffsnap_unclaimed_stop(struct diffsnap_unclaimed *u)
{
	kube_controller_stop(u->common);
}

void diffsnap_unclaimed_free(struct diffsnap_unclaimed *u)
{
	if (!u)
		return;
	diffsnap_unclaimed_stop(u);
	kube_informer_free(u->informer);
	kube_controller_free(u->common);
	diffsnap_live_drivers_free(u->options.live);
	free(u);
}

void diffsnap_unclaimed_lead(struct diffsnap_unclaimed *u, bool leads)
{
	if (kube_controller_lead(u->common, leads))
		kube_controller_add_all(u->common, u->informer);
}
