/* SPDX-License-Identifier: Apache-2.0 */

#include "session/discovery.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/crew.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/driver_endpoint.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/queue.h"
#include "kube/timestamp.h"

#define WORKERS          2U
#define PROBE_TIMEOUT_MS 5000U
#define PAUSE_MIN_MS     500U
#define PAUSE_MAX_MS     30000U

struct discovery_controller {
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_informer *informer;
	struct kube_queue *queue;
	struct cairn_crew workers;
	atomic_bool stopping;
	atomic_bool leads;
};

static int check_stop(void *arg)
{
	const struct discovery_controller *c = arg;

	return atomic_load(&c->stopping) || !atomic_load(&c->leads) ? CAIRN_CANCELLED : 0;
}

static int64_t generation(const json_t *object)
{
	int64_t number = 0;

	(void)kube_i64(object, &number, "metadata", "generation");
	return number;
}

/* Our own writes to the status are not worth a look. */
static void on_change(void *arg, const json_t *old, const json_t *now)
{
	struct discovery_controller *c = arg;
	char key[KUBE_KEY_MAX];

	if (now && (!old || generation(old) != generation(now)) && kube_key(now, key))
		(void)kube_queue_add(c->queue, key, NULL);
}

static int look(const json_t *object, struct cairn_err *err)
{
	cairn_cleanup(kube_driver_endpoint_done) struct kube_driver_endpoint endpoint = {0};
	const char *driver = kube_str(object, "spec", "driverName");
	int rc;

	if (!driver || strcmp(driver, kube_name(object)) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "metadata.name must be the driver's name");
	rc = kube_driver_endpoint_read(object, &endpoint, err);
	return rc ? rc : kube_driver_endpoint_probe(&endpoint, PROBE_TIMEOUT_MS, err);
}

static int write_status(struct discovery_controller *c, const json_t *object, bool reachable,
			const char *message, struct cairn_err *err)
{
	struct kube_call how = {.check = check_stop, .check_arg = c};
	char time[KUBE_TIME_MAX];
	kube_auto_json json_t *patch =
		json_pack("{s:{s:s}, s:{s:b, s:o, s:s, s:I}}", "metadata", "uid", kube_uid(object),
			  "status", "reachable", (int)reachable, "message",
			  reachable ? json_null() : json_string(message), "lastProbeTime",
			  kube_time(cairn_now_ns(), time), "observedGeneration",
			  (json_int_t)generation(object));

	if (!patch)
		return cairn_err_nomem(err, "status");
	return kube_patch(c->client,
			  KUBE_SUB(&kube_driverdiscoveries, NULL, kube_name(object), "status"),
			  KUBE_PATCH_MERGE, patch, &how, NULL, err);
}

static int look_at(struct discovery_controller *c, const char *key, struct cairn_err *err)
{
	kube_auto_json json_t *object = kube_informer_get(c->informer, "", key);
	struct cairn_err why = {0};
	bool was = kube_is(object, "status", "reachable");
	bool reachable;
	int rc;

	if (!object || kube_is_deleted(object))
		return 0;
	reachable = look(object, &why) == 0;
	rc = write_status(c, object, reachable, why.msg, err);
	if (!rc && reachable != was)
		kube_event_tell(c->recorder, object, !reachable,
				reachable ? "Reachable" : "Unreachable", "Probe", "%s",
				reachable ? "the endpoint answers" : why.msg);
	if (!rc)
		(void)kube_queue_add_after(c->queue, key, DISCOVERY_PROBE_MS, NULL);
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_ABORTED ? 0 : rc;
}

static void *work(void *arg)
{
	struct discovery_controller *c = arg;
	char key[KUBE_KEY_MAX];

	while (kube_queue_take(c->queue, key)) {
		struct cairn_err err = {0};
		int rc = atomic_load(&c->leads) ? look_at(c, key, &err) : 0;

		if (rc && rc != CAIRN_CANCELLED) {
			cairn_log(CAIRN_LOG_WARN, "a DriverDiscovery waits",
				  CAIRN_STR("object", key), CAIRN_STR("error", err.msg));
			kube_queue_retry(c->queue, key);
		} else {
			kube_queue_done(c->queue, key);
		}
	}
	return NULL;
}

int discovery_controller_new(struct kube_client *client, struct kube_recorder *recorder,
			     struct discovery_controller **ret, struct cairn_err *err)
{
	const struct kube_informer_options watch = {.resource = &kube_driverdiscoveries};
	cairn_cleanup(discovery_controller_freep) struct discovery_controller *c =
		cairn_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return cairn_err_nomem(err, "controller");
	c->client = client;
	c->recorder = recorder;
	rc = kube_queue_new(PAUSE_MIN_MS, PAUSE_MAX_MS, &c->queue, err);
	if (!rc)
		rc = kube_informer_new(client, &watch, &c->informer, err);
	if (!rc)
		rc = kube_informer_add_handler(c->informer, on_change, c, err);
	if (!rc)
		rc = kube_informer_start(c->informer, err);
	if (!rc && cairn_crew_start(&c->workers, WORKERS, work, c) == 0)
		rc = cairn_err_set(err, CAIRN_NO_SPACE, "no thread can be started");
	if (rc)
		return rc;
	*ret = cairn_take(c);
	return 0;
}

void discovery_controller_stop(struct discovery_controller *c)
{
	atomic_store(&c->stopping, true);
	if (c->queue)
		kube_queue_shutdown(c->queue);
	cairn_crew_join(&c->workers);
}

void discovery_controller_free(struct discovery_controller *c)
{
	if (!c)
		return;
	discovery_controller_stop(c);
	kube_informer_free(c->informer);
	kube_queue_free(c->queue);
	free(c);
}

bool discovery_controller_is_ready(struct discovery_controller *c)
{
	return kube_informer_synced(c->informer);
}

void discovery_controller_lead(struct discovery_controller *c, bool leads)
{
	json_t **found = NULL;
	char key[KUBE_KEY_MAX];
	size_t n = 0;

	if (atomic_exchange(&c->leads, leads) || !leads ||
	    kube_informer_list(c->informer, &found, &n, NULL) != 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (kube_key(found[i], key))
			(void)kube_queue_add(c->queue, key, NULL);
	kube_objects_free(found, n);
}
