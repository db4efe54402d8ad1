/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/resolve_snapshots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/auth.h"
#include "kube/authz_cache.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/delta_pages.h"

static int resolve_snapshots_find_snapshot(const struct aggapi_finder *finder,
					   const struct kube_user *user, const char *ns,
					   const char *name, const struct kube_wait *wait,
					   struct kube_snapshot *ret,
					   struct aggapi_refusal *refusal)
{
	struct cairn_err err = {0};
	int rc = kube_authz_cache_snapshot(finder->guard, user, ns, name, wait, ret, &err);

	if (rc == 0)
		return 0;
	cairn_err_wrap(&err, "VolumeSnapshot '%s'", name);
	rc = aggapi_refuse_err(refusal, &err);
	if (refusal->http == 404)
		refusal->kind = "VolumeSnapshot";
	return rc;
}

static int check_pair(const struct aggapi_found *found, struct aggapi_refusal *refusal)
{
	const struct kube_snapshot *base = &found->base, *target = &found->target;

	if (!base->handle)
		return 0;
	if (strcmp(base->driver, target->driver) != 0)
		return aggapi_refuse(refusal, 400, "BadRequest",
				     "base and target are of different drivers");
	if (base->volume_handle && target->volume_handle &&
	    strcmp(base->volume_handle, target->volume_handle) != 0)
		return aggapi_refuse(refusal, 400, "BadRequest",
				     "base and target are of different volumes");
	return 0;
}

/* The object is named after the driver, so there cannot be two for one driver. */
static int find_endpoint(const struct aggapi_finder *finder, const char *driver,
			 struct kube_driver_endpoint *ret, struct aggapi_refusal *refusal)
{
	kube_auto_json json_t *discovery = NULL;
	struct cairn_err err = {0};
	const char *named;
	int rc;

	if (!kube_informer_synced(finder->discoveries))
		return aggapi_refuse(refusal, 503, "ServiceUnavailable",
				     "drivers are still being discovered");
	discovery = kube_informer_get(finder->discoveries, "", driver);
	if (!discovery && !kube_informer_current(finder->discoveries)) {
		kube_informer_hurry(finder->discoveries);
		return aggapi_refuse(refusal, 503, "ServiceUnavailable",
				     "drivers cannot be discovered at present");
	}
	named = kube_str(discovery, "spec", "driverName");
	if (!discovery || !named || strcmp(named, driver) != 0)
		return aggapi_refuse(refusal, 404, "NotFound",
				     "there is no DriverDiscovery '%s' of the driver '%s'", driver,
				     driver);
	rc = kube_driver_endpoint_read(discovery, ret, &err);
	if (rc) {
		/* The object is invalid, not the request that refers to it. */
		if (rc == CAIRN_INVALID)
			cairn_err_recode(&err, CAIRN_PRECONDITION);
		cairn_err_wrap(&err, "DriverDiscovery of '%s'", driver);
		return aggapi_refuse_err(refusal, &err);
	}
	return 0;
}

/* Decodes a value of a Secret. CSI's secrets are strings: binary values are rejected. */
static int decode_secret(const char *base64, char **ret, struct cairn_err *err)
{
	*ret = cairn_base64_text(base64, strlen(base64));
	if (!*ret || !cairn_utf8_valid(*ret, strlen(*ret)))
		return cairn_err_set(err, CAIRN_INVALID, "a value of the Secret is not text");
	return 0;
}

static int read_secrets(const json_t *secret, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *texts = json_object();
	const char *key;
	json_t *value;

	json_object_foreach(kube_at(secret, "data"), key, value)
	{
		cairn_auto_free char *text = NULL;
		int rc = json_is_string(value)
				 ? decode_secret(json_string_value(value), &text, err)
				 : cairn_err_set(err, CAIRN_INVALID, "the Secret is broken");

		if (!rc && json_object_set_new(texts, key, json_string(text)) < 0)
			rc = cairn_err_nomem(err, "secret");
		if (text)
			explicit_bzero(text, strlen(text));
		if (rc)
			return rc;
	}
	if (!texts)
		return cairn_err_nomem(err, "secret");
	*ret = cairn_take(texts);
	return 0;
}

/* We may read Secrets that the user may not, so the user's permission is checked. */
static int find_secret(const struct aggapi_finder *finder, const struct aggapi_delta *delta,
		       const struct kube_user *user, const struct kube_wait *wait,
		       struct aggapi_found *ret, struct aggapi_refusal *refusal)
{
	const struct kube_access what = {.verb = "get",
					 .group = "",
					 .version = "v1",
					 .resource = "secrets",
					 .ns = delta->secret_ns,
					 .name = delta->secret};
	const struct kube_call call = kube_wait_call(wait);
	kube_auto_json json_t *secret = NULL;
	struct cairn_err err = {0};
	int rc = kube_authz_cache_access(finder->guard, user, &what, wait, &err);

	if (!rc)
		rc = kube_get(finder->client,
			      KUBE_REF(&kube_secrets, delta->secret_ns, delta->secret), &call,
			      &secret, &err);
	if (!rc)
		rc = read_secrets(secret, &ret->secrets, &err);
	if (rc) {
		cairn_err_wrap(&err, "Secret '%s'", delta->secret);
		return aggapi_refuse_err(refusal, &err);
	}
	snprintf(ret->secret_version, sizeof(ret->secret_version), "%s",
		 kube_resource_version(secret));
	return 0;
}

int aggapi_resolve(const struct aggapi_finder *finder, const struct aggapi_delta *delta,
		   const struct kube_user *user, const struct kube_wait *wait,
		   struct aggapi_found *ret, struct aggapi_refusal *refusal)
{
	int rc;

	*ret = (struct aggapi_found){0};
	rc = resolve_snapshots_find_snapshot(finder, user, delta->ns, delta->target, wait,
					     &ret->target, refusal);
	if (!rc && delta->base)
		rc = resolve_snapshots_find_snapshot(finder, user, delta->ns, delta->base, wait,
						     &ret->base, refusal);
	if (!rc)
		rc = check_pair(ret, refusal);
	if (!rc)
		rc = find_endpoint(finder, ret->target.driver, &ret->endpoint, refusal);
	if (!rc && delta->secret)
		rc = find_secret(finder, delta, user, wait, ret, refusal);
	if (rc)
		aggapi_found_done(ret);
	return rc;
}

void aggapi_found_done(struct aggapi_found *found)
{
	kube_snapshot_done(&found->base);
	kube_snapshot_done(&found->target);
	kube_driver_endpoint_done(&found->endpoint);
	json_decref(found->secrets);
	*found = (struct aggapi_found){0};
}
