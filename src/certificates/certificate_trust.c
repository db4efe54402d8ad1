/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_trust.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define BUNDLE_TEXT_MAX (128U << 10)
#define WEBHOOK_PREFIX  "/validate-snapshotsessionrequest/"
#define WEBHOOK_NAME    "snapshotsessionrequests." KUBE_CBT_GROUP

static const struct kube_resource webhook_configurations = {
	.group = "admissionregistration.k8s.io",
	.version = "v1",
	.plural = "validatingwebhookconfigurations",
	.kind = "ValidatingWebhookConfiguration",
};
static const struct kube_resource api_services = {
	.group = "apiregistration.k8s.io",
	.version = "v1",
	.plural = "apiservices",
	.kind = "APIService",
};

static const struct kube_resource *resource_of(enum certificates_object object)
{
	return object == CERTIFICATES_WEBHOOK       ? &webhook_configurations
	       : object == CERTIFICATES_API_SERVICE ? &api_services
						    : &kube_snapshotmetadataservices;
}

static bool contained_in_any(const json_t *wanted, const json_t *array)
{
	const json_t *element;
	size_t i;

	json_array_foreach(array, i, element)
	{
		if (certificates_contained(wanted, element))
			return true;
	}
	return false;
}

bool certificates_contained(const json_t *wanted, const json_t *found)
{
	const json_t *value;
	const char *key;
	size_t i;

	if (json_is_array(wanted)) {
		json_array_foreach(wanted, i, value)
		{
			if (!contained_in_any(value, found))
				return false;
		}
		return true;
	}
	if (!json_is_object(wanted))
		return json_equal(wanted, found) != 0;
	for (void *at = json_object_iter((json_t *)(uintptr_t)wanted); at;
	     at = json_object_iter_next((json_t *)(uintptr_t)wanted, at)) {
		key = json_object_iter_key(at);
		if (!certificates_contained(json_object_iter_value(at),
					    json_object_get(found, key)))
			return false;
	}
	return true;
}

static json_t *metadata_service_fields(const struct certificates_trust *t, const char *bundle)
{
	return json_pack("{s:{s:{s:s}}, s:{s:s, s:s, s:s}}", "metadata", "labels",
			 KUBE_CBT_DRIVER_LABEL, t->driver, "spec", "address", t->address,
			 "audience", t->driver, "caCert", bundle);
}

/* A webhook with a URL has its path in it, which is the administrator's. */
static json_t *webhook_fields(const struct certificates_trust *t, const char *bundle,
			      const json_t *found)
{
	const json_t *first = json_array_get(json_object_get(found, "webhooks"), 0);
	bool by_url = kube_str(first, "clientConfig", "url") != NULL;
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(512);
	json_t *config;

	cairn_buf_adds(&path, WEBHOOK_PREFIX);
	cairn_buf_adds(&path, t->secret);
	cairn_buf_addc(&path, '\0');
	if (cairn_buf_failed(&path))
		return NULL;
	config = by_url ? json_pack("{s:s}", "caBundle", bundle)
			: json_pack("{s:s, s:{s:s}}", "caBundle", bundle, "service", "path",
				    (const char *)path.data);
	return json_pack("{s:[{s:s, s:o}]}", "webhooks", "name", WEBHOOK_NAME, "clientConfig",
			 config);
}

static json_t *fields_of(const struct certificates_trust *t, const json_t *found)
{
	cairn_auto_buf struct cairn_buf bundle = CAIRN_BUF_INIT(BUNDLE_TEXT_MAX);
	const char *text;

	cairn_base64_add(&bundle, t->bundle, strlen(t->bundle));
	cairn_buf_addc(&bundle, '\0');
	if (cairn_buf_failed(&bundle))
		return NULL;
	text = (const char *)bundle.data;
	switch (t->object) {
	case CERTIFICATES_METADATA_SERVICE:
		return metadata_service_fields(t, text);
	case CERTIFICATES_WEBHOOK:
		return webhook_fields(t, text, found);
	case CERTIFICATES_API_SERVICE:
		return json_pack("{s:{s:s}}", "spec", "caBundle", text);
	default:
		return NULL;
	}
}

int certificates_trust(struct kube_client *client, const struct certificates_trust *trust,
		       bool *ret_changed, struct cairn_err *err)
{
	const struct kube_resource *resource = resource_of(trust->object);
	const struct kube_ref *ref = KUBE_REF(resource, NULL, trust->name);
	const struct kube_call how = {.field_manager = CERTIFICATES_FIELD_MANAGER};
	kube_auto_json json_t *found = NULL, *fields = NULL, *object = NULL;
	int rc;

	*ret_changed = false;
	if (trust->object == CERTIFICATES_NO_OBJECT)
		return 0;
	rc = kube_get(client, ref, NULL, &found, err);
	if (rc == CAIRN_NOT_FOUND && trust->object != CERTIFICATES_METADATA_SERVICE)
		return 0;
	if (rc && rc != CAIRN_NOT_FOUND)
		return cairn_err_wrap(err, "%s %s", resource->kind, trust->name);
	fields = fields_of(trust, found);
	if (!fields)
		return cairn_err_nomem(err, "authorities");
	if (found && certificates_contained(fields, found))
		return 0;
	object = kube_object_new(resource, NULL, trust->name);
	if (!object || json_object_update_recursive(object, fields) < 0)
		return cairn_err_nomem(err, "authorities");
	*ret_changed = true;
	rc = kube_apply(client, ref, object, true, &how, NULL, err);
	return rc ? cairn_err_wrap(err, "%s %s", resource->kind, trust->name) : 0;
}
