/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/diffsnap_controller.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/controller.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "older/diffsnap/diffsnap_driver.h"
#include "older/diffsnap/diffsnap_resource.h"
#include "older/diffsnap/live_drivers.h"
#include "older/diffsnap/unclaimed.h"
#include "older/diffsnap/verdict.h"

#define WORKERS 2U

struct diffsnap_controller {
	struct diffsnap_controller_options options;
	char *address;
	struct kube_informer *informer;
	struct kube_informer *snapshots;
	struct kube_controller *common;
	struct diffsnap_live_drivers *live;
	atomic_bool caught_up;
};

static void diffsnap_controller_on_change(void *arg, const json_t *old, const json_t *now)
{
	struct diffsnap_controller *c = arg;

	diffsnap_live_drivers_note(c->live, old, now);
	kube_controller_add_object(c->common, now ? now : old);
}

/* Objects are found under the VolumeSnapshots that they name: "namespace/name". */
#define BY_SNAPSHOT "snapshot"

static void diffsnap_controller_emit_name(const json_t *object, const char *name,
					  void (*emit)(void *to, const char *text), void *to)
{
	char key[KUBE_KEY_MAX];

	if (name && name[0] && kube_key_of(kube_namespace(object), name, key))
		emit(to, key);
}

static void diffsnap_controller_texts(const json_t *object,
				      void (*emit)(void *to, const char *text), void *to)
{
	diffsnap_controller_emit_name(object, kube_str(object, "spec", "targetVolumeSnapshotName"),
				      emit, to);
	diffsnap_controller_emit_name(object, kube_str(object, "spec", "baseVolumeSnapshotName"),
				      emit, to);
}

/* A VolumeSnapshot that is deleted ends the objects that name it as their target, and one
 * that becomes ready lets them begin. */
static void diffsnap_controller_on_snapshot(void *arg, const json_t *old, const json_t *now)
{
	struct diffsnap_controller *c = arg;
	char key[KUBE_KEY_MAX];
	json_t **found = NULL;
	size_t n = 0;

	if (!kube_key(now ? now : old, key) ||
	    kube_informer_find(c->informer, BY_SNAPSHOT, key, &found, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		kube_controller_add_object(c->common, found[i]);
	kube_objects_free(found, n);
}

/* Only events are used; the objects are read from the API server. */
static void diffsnap_controller_trim(json_t *snapshot)
{
	json_object_del(kube_at(snapshot, "metadata"), "managedFields");
	json_object_del(kube_at(snapshot, "metadata"), "annotations");
	json_object_del(snapshot, "spec");
}

static bool diffsnap_controller_same_text(const json_t *status, const char *name, const char *value)
{
	const char *now = kube_str(status, name);

	return strcmp(now ? now : "", value ? value : "") == 0;
}

/* A field of a merge patch: text, or null to remove it. */
static json_t *diffsnap_controller_text_or_null(const char *text)
{
	return text && text[0] ? json_string(text) : json_null();
}

/* A failure is written only to the version that was judged: the informer may not have our last
 * status yet, and with it the handle of a base that was deleted since. */
static int diffsnap_controller_write_status(struct diffsnap_controller *c, const json_t *object,
					    const char *state, const char *error, const char *url,
					    const char *base_handle, struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	const json_t *status = kube_at(object, "status");
	kube_auto_json json_t *patch = NULL;

	if (diffsnap_controller_same_text(status, "state", state) &&
	    diffsnap_controller_same_text(status, "error", error) &&
	    diffsnap_controller_same_text(status, "url", url) &&
	    diffsnap_controller_same_text(status, "baseSnapshotHandle", base_handle))
		return 0;
	patch = json_pack("{s:{s:s}, s:{s:s, s:o, s:o, s:o}}", "metadata", "uid", kube_uid(object),
			  "status", "state", state, "error",
			  diffsnap_controller_text_or_null(error), "url",
			  diffsnap_controller_text_or_null(url), "baseSnapshotHandle",
			  diffsnap_controller_text_or_null(base_handle));
	if (!patch || (error && kube_set(patch, err, json_string(kube_resource_version(object)),
					 "metadata", "resourceVersion") != 0))
		return cairn_err_nomem(err, "status");
	return kube_patch(c->options.client,
			  KUBE_SUB(&kube_differentialsnapshots, kube_namespace(object),
				   kube_name(object), "status"),
			  KUBE_PATCH_MERGE, patch, &how, NULL, err);
}

static int say_success(struct diffsnap_controller *c, const char *key, const json_t *object,
		       struct diffsnap_verdict *verdict, struct cairn_err *err)
{
	const char *before = kube_str(object, "status", "state");
	cairn_auto_free char *url = cairn_printf("%s/%s", c->address, key);
	int rc;

	if (!url)
		return cairn_err_nomem(err, "url");
	/* The table first: a client that sees the status must find the resource there. */
	rc = diffsnap_table_put(c->options.table, key, verdict->resource, err);
	if (!rc)
		rc = diffsnap_controller_write_status(
			c, object, diffsnap_state_name(verdict->state), NULL, url,
			diffsnap_resource_spec(verdict->resource)->base, err);
	if (!rc && (!before || strcmp(before, "Success") != 0))
		kube_event_tell(c->options.recorder, object, false, "Success", "Validate",
				"changed blocks can be read at %s", url);
	return rc;
}

static int say_other(struct diffsnap_controller *c, const char *key, const json_t *object,
		     const struct diffsnap_verdict *verdict, struct cairn_err *err)
{
	const char *before = kube_str(object, "status", "state");
	const char *state = diffsnap_state_name(verdict->state);
	int rc = 0;

	if (verdict->state != DIFFSNAP_FOREIGN)
		rc = diffsnap_controller_write_status(
			c, object, state, verdict->why.msg, NULL,
			kube_str(object, "status", "baseSnapshotHandle"), err);
	if (!rc)
		diffsnap_table_remove(c->options.table, key);
	if (!rc && verdict->state == DIFFSNAP_FAILURE && (!before || strcmp(before, state) != 0))
		kube_event_tell(c->options.recorder, object, true, "Failure", "Validate", "%s",
				verdict->why.msg);
	return rc;
}

static int diffsnap_controller_look_at(void *arg, const char *key, uint64_t *ret_again_ms,
				       struct cairn_err *err)
{
	struct diffsnap_controller *c = arg;
	struct kube_call how = kube_controller_call(c->common);
	const struct diffsnap_unclaimed_options unclaimed = {
		.client = c->options.client,
		.recorder = c->options.recorder,
		.after_ms = c->options.unclaimed_ms,
		.live = c->live,
	};
	struct diffsnap_verdict verdict = {.state = DIFFSNAP_FOREIGN};
	kube_auto_json json_t *object = NULL;
	char buf[KUBE_KEY_MAX];
	const char *ns;
	const char *name;
	int rc;

	kube_key_split(key, buf, &ns, &name);
	object = kube_informer_get(c->informer, ns, name);
	if (!object || kube_is_deleted(object)) {
		diffsnap_table_remove(c->options.table, key);
		return 0;
	}
	rc = diffsnap_judge(c->options.client, c->options.driver, object, &how, &verdict, err);
	if (rc)
		return rc;
	if (verdict.state == DIFFSNAP_SUCCESS)
		rc = say_success(c, key, object, &verdict, err);
	else
		rc = say_other(c, key, object, &verdict, err);
	diffsnap_resource_unrefp(&verdict.resource);
	if (!rc && verdict.state == DIFFSNAP_FOREIGN)
		rc = diffsnap_unclaimed_look(&unclaimed, object, &how, ret_again_ms, err);
	if (verdict.state == DIFFSNAP_PENDING)
		*ret_again_ms = 0;
	/* Deleted or changed meanwhile; an event will follow. */
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_ABORTED ? 0 : rc;
}

static void diffsnap_controller_tell_error(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	cairn_log(CAIRN_LOG_WARN, "a DifferentialSnapshot waits", CAIRN_STR("object", key),
		  CAIRN_STR("error", err->msg));
}

static int diffsnap_controller_watch(struct diffsnap_controller *c, struct cairn_err *err)
{
	static const struct kube_index indexes[] = {{BY_SNAPSHOT, diffsnap_controller_texts},
						    {NULL, NULL}};
	const struct kube_informer_options objects = {.resource = &kube_differentialsnapshots,
						      .indexes = indexes,
						      .trim = kube_informer_trim_metadata};
	const struct kube_informer_options snapshots = {.resource = &kube_volumesnapshots,
							.trim = diffsnap_controller_trim};
	struct kube_client *client = c->options.client;
	int rc = kube_informer_new(client, &objects, &c->informer, err);

	if (!rc)
		rc = kube_informer_add_handler(c->informer, diffsnap_controller_on_change, c, err);
	if (!rc)
		rc = kube_informer_new(client, &snapshots, &c->snapshots, err);
	if (!rc)
		rc = kube_informer_add_handler(c->snapshots, diffsnap_controller_on_snapshot, c,
					       err);
	if (!rc)
		rc = kube_informer_start(c->informer, err);
	return rc ? rc : kube_informer_start(c->snapshots, err);
}

int diffsnap_controller_new(const struct diffsnap_controller_options *options,
			    struct diffsnap_controller **ret, struct cairn_err *err)
{
	cairn_cleanup(diffsnap_controller_freep) struct diffsnap_controller *c =
		cairn_calloc(1, sizeof(*c));
	const struct kube_controller_options common = {
		.workers = WORKERS,
		.look = diffsnap_controller_look_at,
		.failed = diffsnap_controller_tell_error,
		.arg = c,
	};
	int rc;

	if (!c)
		return cairn_err_nomem(err, "controller");
	c->options = *options;
	c->address = cairn_strdup(options->address);
	if (!c->address)
		return cairn_err_nomem(err, "controller");
	rc = diffsnap_live_drivers_new(&c->live, err);
	if (!rc)
		rc = kube_controller_new(&common, &c->common, err);
	if (!rc)
		rc = diffsnap_controller_watch(c, err);
	if (!rc)
		rc = kube_controller_start(c->common, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

void diffsnap_controller_free(struct diffsnap_controller *c)
{
	if (!c)
		return;
	kube_controller_stop(c->common);
	kube_informer_free(c->snapshots);
	kube_informer_free(c->informer);
	kube_controller_free(c->common);
	diffsnap_live_drivers_free(c->live);
	free(c->address);
	free(c);
}

bool diffsnap_controller_is_ready(struct diffsnap_controller *c)
{
	if (!atomic_load(&c->caught_up) && kube_informer_synced(c->informer) &&
	    kube_controller_idle(c->common))
		atomic_store(&c->caught_up, true);
	return atomic_load(&c->caught_up);
}
