/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/route_endpoints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define INDEX        "node"
#define SERVICE      "kubernetes.io/service-name"
#define SELECTOR_MAX 320
#define PORT_MAX     65535

struct sidecar_route_endpoints {
	struct kube_informer *informer;
};

static void by_node(const json_t *slice, void (*emit)(void *to, const char *text), void *to)
{
	const json_t *endpoint;
	size_t i;

	json_array_foreach(kube_at(slice, "endpoints"), i, endpoint)
	{
		const char *node = kube_str(endpoint, "nodeName");

		if (node)
			emit(to, node);
	}
}

int sidecar_route_endpoints_new(struct kube_client *client, const char *ns, const char *service,
				struct sidecar_route_endpoints **ret, struct cairn_err *err)
{
	static const struct kube_index indexes[] = {{INDEX, by_node}, {NULL, NULL}};
	cairn_cleanup(sidecar_route_endpoints_freep) struct sidecar_route_endpoints *endpoints =
		cairn_calloc(1, sizeof(*endpoints));
	char selector[SELECTOR_MAX];
	const struct kube_informer_options options = {
		.resource = &kube_endpointslices,
		.ns = ns ? ns : kube_client_namespace(client),
		.label_selector = selector,
		.indexes = indexes,
	};
	int rc;

	if (!endpoints)
		return cairn_err_nomem(err, "endpoints");
	snprintf(selector, sizeof(selector), SERVICE "=%.253s", service);
	rc = kube_informer_new(client, &options, &endpoints->informer, err);
	if (!rc)
		rc = kube_informer_start(endpoints->informer, err);
	if (!rc)
		*ret = cairn_take(endpoints);
	return rc;
}

void sidecar_route_endpoints_free(struct sidecar_route_endpoints *endpoints)
{
	if (!endpoints)
		return;
	kube_informer_free(endpoints->informer);
	free(endpoints);
}

static int64_t route_port_of(const json_t *slice)
{
	const json_t *port;
	size_t i;
	int64_t number = 0;

	json_array_foreach(kube_at(slice, "ports"), i, port)
	{
		if (cairn_text_same(kube_str(port, "name"), SIDECAR_ROUTE_PORT_NAME) &&
		    kube_i64(port, &number, "port") && number > 0 && number <= PORT_MAX)
			return number;
	}
	return 0;
}

/* Ready unless it says that it is not. */
static bool endpoint_is_ready(const json_t *endpoint)
{
	const json_t *ready = kube_at(endpoint, "conditions", "ready");

	return !json_is_false(ready);
}

/* Returns true if the slice has a sidecar on that node. */
static bool slice_look(const json_t *slice, const char *node, char ret[SIDECAR_ROUTE_ADDRESS_MAX])
{
	int64_t port = route_port_of(slice);
	const json_t *endpoint;
	size_t i;

	json_array_foreach(kube_at(slice, "endpoints"), i, endpoint)
	{
		const char *host =
			json_string_value(json_array_get(kube_at(endpoint, "addresses"), 0));
		bool v6 = host && strchr(host, ':');
		int n;

		if (port == 0 || !host || !endpoint_is_ready(endpoint) ||
		    !cairn_text_same(kube_str(endpoint, "nodeName"), node))
			continue;
		n = snprintf(ret, SIDECAR_ROUTE_ADDRESS_MAX, "%s%s%s:%lld", v6 ? "[" : "", host,
			     v6 ? "]" : "", (long long)port);
		if (n > 0 && n < SIDECAR_ROUTE_ADDRESS_MAX)
			return true;
	}
	return false;
}

static int route_endpoints_find(void *self, const char *node, char ret[SIDECAR_ROUTE_ADDRESS_MAX],
				struct cairn_err *err)
{
	struct sidecar_route_endpoints *endpoints = self;
	json_t **slices = NULL;
	bool found = false;
	size_t n = 0;
	int rc;

	if (!kube_informer_synced(endpoints->informer))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "the sidecars of other nodes are not known yet");
	rc = kube_informer_find(endpoints->informer, INDEX, node, &slices, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n && !found; i++)
		found = slice_look(slices[i], node, ret);
	kube_objects_free(slices, n);
	if (found)
		return 0;
	kube_informer_hurry(endpoints->informer);
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "no sidecar is ready on node '%.253s'", node);
}

struct sidecar_route_map sidecar_route_endpoints_map(struct sidecar_route_endpoints *endpoints)
{
	return (struct sidecar_route_map){.find = route_endpoints_find, .self = endpoints};
}
