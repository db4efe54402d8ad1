/* SPDX-License-Identifier: Apache-2.0 */

#include "older/session/request_validate.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"
#include "kube/timestamp.h"

static bool request_validate_is_final(int rc)
{
	return rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION || rc == CAIRN_INVALID;
}

/* Finds the driver of one snapshot, which must be that of the previous ones. */
static int request_validate_look_at_snapshot(struct kube_client *client, const char *ns,
					     const char *name, const struct kube_call *how,
					     char **driver, struct session_verdict *ret,
					     struct cairn_err *err)
{
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot snapshot = {0};
	int rc = kube_snapshot_get(client, ns, name, how, &snapshot, err);

	if (request_validate_is_final(rc) || rc == CAIRN_UNAVAILABLE) {
		ret->state = request_validate_is_final(rc) ? SESSION_FAILED : SESSION_PENDING;
		ret->why = *err;
		return 0;
	}
	if (rc)
		return rc;
	if (!*driver) {
		*driver = cairn_strdup(snapshot.driver);
		return *driver ? 0 : cairn_err_nomem(err, "session");
	}
	if (strcmp(*driver, snapshot.driver) != 0) {
		ret->state = SESSION_FAILED;
		cairn_err_set(&ret->why, CAIRN_INVALID,
			      "the snapshots belong to several drivers: '%s' and '%s'", *driver,
			      snapshot.driver);
	}
	return 0;
}

/* True for a request that is new enough to wait for a configuration. */
static bool may_wait(const json_t *request)
{
	uint64_t made;
	uint64_t now = cairn_now_ns();

	return kube_time_parse(kube_str(request, "metadata", "creationTimestamp"), &made) &&
	       (now < made || now - made < SESSION_CONFIGURATION_WAIT_MS * CAIRN_NS_PER_MS);
}

static int find_configuration(const struct session_validation *with, const char *driver,
			      const json_t *request, struct session_verdict *ret,
			      struct cairn_err *err)
{
	json_t **found = NULL;
	size_t n = 0;
	int rc = kube_informer_find(with->configurations, SESSION_DRIVER_INDEX, driver, &found, &n,
				    err);

	if (rc)
		return rc;
	if (n == 1) {
		ret->configuration = json_incref(found[0]);
		rc = session_driver_namespace(found[0], with->ns, ret->driver_namespace, &ret->why);
		if (rc)
			ret->state = SESSION_FAILED;
	} else {
		ret->state = may_wait(request) ? SESSION_PENDING : SESSION_FAILED;
		cairn_err_set(&ret->why, CAIRN_NOT_FOUND,
			      n ? "there are several SnapshotServicesConfigurations of the driver "
				  "'%s'"
				: "there is no SnapshotServicesConfiguration of the driver '%s'",
			      driver);
	}
	kube_objects_free(found, n);
	return 0;
}

int session_request_validate(const struct session_validation *with, const json_t *request,
			     const struct kube_call *how, struct session_verdict *ret,
			     struct cairn_err *err)
{
	const json_t *names = kube_at(request, "spec", "snapshots");
	cairn_auto_free char *driver = NULL;
	const json_t *name;
	size_t i;
	int rc = 0;

	*ret = (struct session_verdict){.state = SESSION_READY};
	json_array_foreach(names, i, name)
	{
		const char *text = json_string_value(name);

		if (!text)
			continue;
		rc = request_validate_look_at_snapshot(with->client, kube_namespace(request), text,
						       how, &driver, ret, err);
		if (rc || ret->state != SESSION_READY)
			return rc;
	}
	if (!driver) {
		ret->state = SESSION_FAILED;
		cairn_err_set(&ret->why, CAIRN_INVALID, "no snapshot is named");
		return 0;
	}
	return find_configuration(with, driver, request, ret, err);
}
