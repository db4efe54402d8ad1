/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/aggapi_publish.h"

#include <jansson.h>
#include <string.h>

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/publisher.h"
#include "older/aggapi/path.h"

static json_t *service_of(const char *text, struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(text);
	char *name, *port, *path;
	uint64_t number = 443;

	if (!copy) {
		cairn_err_nomem(err, "service");
		return NULL;
	}
	name = strchr(copy, '/');
	path = name ? strchr(name + 1, '/') : NULL;
	port = name ? strchr(name + 1, ':') : NULL;
	if (port && path && port > path)
		port = NULL;
	if (name)
		*name++ = '\0';
	if (path)
		*path++ = '\0';
	if (port)
		*port++ = '\0';
	if (!name || !*copy || !*name || !aggapi_name_valid(copy) || !aggapi_name_valid(name) ||
	    (port && (cairn_parse_u64(port, &number, NULL) != 0 || number < 1 || number > 65535))) {
		cairn_err_set(err, CAIRN_INVALID, "'%s' is not NAMESPACE/NAME[:PORT][/PATH]", text);
		return NULL;
	}
	if (path) {
		path[-1] = '/';
		path--;
	}
	return json_pack("{s:s, s:s, s:I, s:s*}", "namespace", copy, "name", name, "port",
			 (json_int_t)number, "path", path);
}

static int aggapi_publish_make_object(const struct aggapi_publish_options *o, json_t **ret,
				      struct cairn_err *err)
{
	kube_auto_json json_t *object = kube_object_new(&kube_driverdiscoveries, NULL, o->driver);
	json_t *config = json_object();
	int rc = 0;

	if (!object || kube_set(object, err, config, "spec", "clientConfig") < 0 ||
	    kube_set(object, err, json_string(o->driver), "spec", "driverName") < 0)
		return cairn_err_nomem(err, "DriverDiscovery");
	if (!o->url == !o->service)
		return cairn_err_set(err, CAIRN_INVALID, "give either a URL or a Service");
	if (o->url && strncmp(o->url, "https://", 8) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' does not begin with https://",
				     o->url);
	if (o->url) {
		rc = kube_set(config, err, json_string(o->url), "url");
	} else {
		json_t *service = service_of(o->service, err);

		rc = service ? kube_set(config, err, service, "service")
			     : cairn_err_negative(err ? err->code : CAIRN_INVALID);
	}
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

static void aggapi_publish_result(const json_t *object, const struct cairn_err *failure)
{
	if (failure)
		cairn_log(CAIRN_LOG_WARN, "DriverDiscovery is not published",
			  CAIRN_STR("error", failure->msg));
	else
		cairn_log(CAIRN_LOG_INFO, "DriverDiscovery published",
			  CAIRN_STR("name", kube_name(object)));
}

int aggapi_publish(struct kube_client *client, const struct aggapi_publish_options *options,
		   struct kube_publisher **ret, struct cairn_err *err)
{
	static const char *const ca_path[] = {"spec", "clientConfig", "caBundle", NULL};
	struct kube_publish_options how = {.resource = &kube_driverdiscoveries,
					   .ca_file = options->ca_file,
					   .ca_path = ca_path,
					   .on_result = aggapi_publish_result,
					   .field_manager = "cairn-cbt-http"};
	int rc = aggapi_publish_make_object(options, &how.object, err);

	return rc ? rc : kube_publisher_new(client, &how, ret, err);
}
