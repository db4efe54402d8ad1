/* SPDX-License-Identifier: Apache-2.0 */

#include "older/session/discovery.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/controller.h"
#include "kube/driver_endpoint.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/timestamp.h"

#define WORKERS          2U
#define PROBE_TIMEOUT_MS 5000U

struct discovery_controller {
	struct kube_client *client;
	struct kube_recorder *recorder;
	struct kube_informer *informer;
	struct kube_controller *common;
};

static int64_t discovery_generation(const json_t *object)
{
	int64_t number = 0;

	(void)kube_i64(object, &number, "metadata", "generation");
	return number;
}

/* Ignore our own writes to the status. */
static void discovery_on_change(void *arg, const json_t *old, const json_t *now)
{
	struct discovery_controller *c = arg;

	if (now && (!old || discovery_generation(old) != discovery_generation(now)))
		kube_controller_add_object(c->common, now);
}

static int discovery_look(const json_t *object, struct cairn_err *err)
{
	cairn_cleanup(kube_driver_endpoint_done) struct kube_driver_endpoint endpoint = {0};
	const char *driver = kube_str(object, "spec", "driverName");
	int rc;

	if (!driver || strcmp(driver, kube_name(object)) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "metadata.name must be the driver's name");
	rc = kube_driver_endpoint_read(object, &endpoint, err);
	return rc ? rc : kube_driver_endpoint_probe(&endpoint, PROBE_TIMEOUT_MS, err);
}

static int discovery_write_status(struct discovery_controller *c, const json_t *object,
				  bool reachable, const char *message, struct cairn_err *err)
{
	const struct kube_call how = kube_controller_call(c->common);
	char time[KUBE_TIME_MAX];
	kube_auto_json json_t *patch =
		json_pack("{s:{s:s}, s:{s:b, s:o, s:s, s:I}}", "metadata", "uid", kube_uid(object),
			  "status", "reachable", (int)reachable, "message",
			  reachable ? json_null() : json_string(message), "lastProbeTime",
			  kube_time(cairn_now_ns(), time), "observedGeneration",
			  (json_int_t)discovery_generation(object));

	if (!patch)
		return cairn_err_nomem(err, "status");
	return kube_patch(c->client,
			  KUBE_SUB(&kube_driverdiscoveries, NULL, kube_name(object), "status"),
			  KUBE_PATCH_MERGE, patch, &how, NULL, err);
}

static int discovery_look_at(void *arg, const char *key, uint64_t *ret_again_ms,
			     struct cairn_err *err)
{
	struct discovery_controller *c = arg;
	kube_auto_json json_t *object = kube_informer_get(c->informer, "", key);
	struct cairn_err why = {0};
	bool was = kube_is(object, "status", "reachable");
	bool reachable;
	int rc;

	if (!object || kube_is_deleted(object))
		return 0;
	reachable = discovery_look(object, &why) == 0;
	rc = discovery_write_status(c, object, reachable, why.msg, err);
	if (!rc && reachable != was)
		kube_event_tell(c->recorder, object, !reachable,
				reachable ? "Reachable" : "Unreachable", "Probe", "%s",
				reachable ? "the endpoint answers" : why.msg);
	if (!rc)
		*ret_again_ms = DISCOVERY_PROBE_MS;
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_ABORTED ? 0 : rc;
}

static void discovery_tell_error(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	cairn_log(CAIRN_LOG_WARN, "a DriverDiscovery waits", CAIRN_STR("object", key),
		  CAIRN_STR("error", err->msg));
}

static int discovery_start(struct discovery_controller *c, struct cairn_err *err)
{
	const struct kube_informer_options watch = {.resource = &kube_driverdiscoveries};
	int rc = kube_informer_new(c->client, &watch, &c->informer, err);

	if (!rc)
		rc = kube_informer_add_handler(c->informer, discovery_on_change, c, err);
	if (!rc)
		rc = kube_informer_start(c->informer, err);
	return rc ? rc : kube_controller_start(c->common, err);
}

int session_discovery_controller_new(struct kube_client *client, struct kube_recorder *recorder,
				     struct discovery_controller **ret, struct cairn_err *err)
{
	cairn_cleanup(session_discovery_controller_freep) struct discovery_controller *c =
		cairn_calloc(1, sizeof(*c));
	const struct kube_controller_options common = {
		.workers = WORKERS,
		.elected = true,
		.look = discovery_look_at,
		.failed = discovery_tell_error,
		.arg = c,
	};
	int rc;

	if (!c)
		return cairn_err_nomem(err, "controller");
	c->client = client;
	c->recorder = recorder;
	rc = kube_controller_new(&common, &c->common, err);
	if (!rc)
		rc = discovery_start(c, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

void session_discovery_controller_stop(struct discovery_controller *c)
{
	kube_controller_stop(c->common);
}

void session_discovery_controller_free(struct discovery_controller *c)
{
	if (!c)
		return;
	session_discovery_controller_stop(c);
	kube_informer_free(c->informer);
	kube_controller_free(c->common);
	free(c);
}

bool session_discovery_controller_is_ready(struct discovery_controller *c)
{
	return kube_informer_synced(c->informer);
}

void session_discovery_controller_lead(struct discovery_controller *c, bool leads)
{
	if (kube_controller_lead(c->common, leads))
		kube_controller_add_all(c->common, c->informer);
}
