/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/publish_config.h"

#include "base/err.h"
#include "base/log.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/publisher.h"

static int publish_config_make_object(const struct sidecar_publish_config_options *o,
				      const char *ns, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object =
		kube_object_new(&kube_snapshotservicesconfigurations, NULL, o->name);
	int rc = object ? 0 : cairn_err_nomem(err, "configuration");

	if (!rc)
		rc = kube_set(object, err, json_string(o->driver), "metadata", "labels",
			      KUBE_CBT_DRIVER_LABEL);
	if (!rc)
		rc = kube_set(object, err, json_string(ns), "metadata", "annotations",
			      KUBE_CBT_NAMESPACE_ANNOTATION);
	if (!rc)
		rc = kube_set(object, err, json_string(o->address), "spec", "address");
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

static void publish_config_result(const json_t *object, const struct cairn_err *failure)
{
	if (failure)
		cairn_log(CAIRN_LOG_WARN, "SnapshotServicesConfiguration is not published",
			  CAIRN_STR("error", failure->msg));
	else
		cairn_log(CAIRN_LOG_INFO, "SnapshotServicesConfiguration published",
			  CAIRN_STR("name", kube_name(object)));
}

int sidecar_advertise(struct kube_client *client,
		      const struct sidecar_publish_config_options *options,
		      struct kube_publisher **ret, struct cairn_err *err)
{
	static const char *const ca_path[] = {"spec", "caCert", NULL};
	struct kube_publish_options how = {.resource = &kube_snapshotservicesconfigurations,
					   .ca_file = options->ca_file,
					   .ca_path = ca_path,
					   .on_result = publish_config_result,
					   .field_manager = "cairn-sidecar"};
	const char *ns = options->ns ? options->ns : kube_client_namespace(client);
	int rc = publish_config_make_object(options, ns, &how.object, err);

	return rc ? rc : kube_publisher_new(client, &how, ret, err);
}
