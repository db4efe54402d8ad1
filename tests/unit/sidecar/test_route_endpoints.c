/* SPDX-License-Identifier: Apache-2.0 */

/* Addresses of other nodes' sidecars, from EndpointSlices of a scripted API server. */

#include "cairntest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "kube/kube_client.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"
#include "sidecar/route_endpoints.h"

#define PATIENCE_MS 60000

#define SLICE(name, ports, endpoints)                                                 \
	"{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"here\",\"uid\":\"" name \
	"\",\"resourceVersion\":\"3\"},\"ports\":[" ports "],\"endpoints\":[" endpoints "]}"
#define PORT(name, number) "{\"name\":\"" name "\",\"port\":" number "}"
#define AT(node, address)  "{\"nodeName\":\"" node "\",\"addresses\":[\"" address "\"]}"
#define STATE(node, address, ready)                                   \
	"{\"nodeName\":\"" node "\",\"addresses\":[\"" address "\"]," \
	"\"conditions\":{\"ready\":" ready "}}"
#define SLICES                                                                                                                                    \
	"{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" SLICE(                                                                            \
		"a", PORT("http", "8080") "," PORT("route", "50052"),                                                                             \
		AT("one", "10.0.0.1") "," STATE("two", "10.0.0.2", "true") "," STATE(                                                             \
			"ill", "10.0.0.3",                                                                                                        \
			"false") ",{\"addresses\":[\"10.0.0.9\"]}") "," SLICE("b",                                                                \
									      PORT("route",                                                       \
										   "6000"),                                                       \
									      AT("six", "fd00::6") "," STATE(                                     \
										      "ill2",                                                     \
										      "10.0.0.4",                                                 \
										      "null")) "," SLICE("c",                                     \
													 PORT("http",                             \
													      "8080"),                            \
													 AT("portless",                           \
													    "10.0.0.7")) "," SLICE("d",           \
																   PORT("route",  \
																	"70000"), \
																   AT("far",      \
																      "10.0.0.8")) "]}"

static atomic_bool refuse;

static int list_slices(struct scripted_server *server, struct net_http *http, unsigned n,
		       const struct scripted_request *request)
{
	(void)server;
	(void)n;
	if (atomic_load(&refuse))
		return scripted_status(http, 403, "Forbidden", "no", NULL);
	if (!strstr(request->query, "watch=true"))
		return scripted_reply(http, 200, NULL, SLICES);
	if (net_http_begin(http, 200, "application/json", NULL) < 0)
		return CAIRN_CANCELLED;
	while (net_http_check(http) == 0)
		cairn_sleep_ms(5);
	return CAIRN_INTERNAL;
}

/* The answer for a node that exists, once the list is there. */
static void wait_for_list(const struct sidecar_route_map *map)
{
	uint64_t until = cairn_monotonic_ns() + PATIENCE_MS * CAIRN_NS_PER_MS;
	char address[SIDECAR_ROUTE_ADDRESS_MAX];

	while (map->find(map->self, "one", address, NULL) != 0) {
		assert_true(cairn_monotonic_ns() < until);
		cairn_sleep_ms(5);
	}
}

/* What the slices of a server that the test plays are read into. */
struct reading {
	struct scripted_server server;
	struct kube_client *client;
	struct sidecar_route_endpoints *endpoints;
	struct sidecar_route_map map;
};

static void reading_start(struct reading *r)
{
	struct cairn_err err = {0};

	scripted_start(&r->server, list_slices, NULL);
	r->client = scripted_client(&r->server, "token: t", NULL);
	assert_ok(sidecar_route_endpoints_new(r->client, "here", "svc", &r->endpoints, &err), &err);
	r->map = sidecar_route_endpoints_map(r->endpoints);
}

static void reading_stop(struct reading *r)
{
	sidecar_route_endpoints_free(r->endpoints);
	kube_client_free(r->client);
	scripted_stop(&r->server);
}

static void a_node_has_the_address_of_its_endpoint(void **state)
{
	static const struct {
		const char *node, *address;
	} cases[] = {
		{"one", "10.0.0.1:50052"},
		{"two", "10.0.0.2:50052"},
		{"six", "[fd00::6]:6000"},
		{"ill2", "10.0.0.4:6000"},
		{"ill", NULL},
		{"portless", NULL},
		{"far", NULL},
		{"absent", NULL},
		{"", NULL},
	};
	struct reading r = {0};
	struct cairn_err err = {0};

	(void)state;
	reading_start(&r);
	wait_for_list(&r.map);
	assert_non_null(strstr(r.server.seen[0].path, "/namespaces/here/endpointslices"));
	assert_non_null(strstr(r.server.seen[0].query, "service-name%3Dsvc"));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char address[SIDECAR_ROUTE_ADDRESS_MAX] = "";
		int rc = r.map.find(r.map.self, cases[i].node, address, &err);

		assert_int_equal(rc, cases[i].address ? 0 : CAIRN_UNAVAILABLE);
		if (cases[i].address)
			assert_string_equal(address, cases[i].address);
	}
	reading_stop(&r);
}

static void unknown_is_not_absent(void **state)
{
	char address[SIDECAR_ROUTE_ADDRESS_MAX];
	struct reading r = {0};
	struct cairn_err err = {0};

	(void)state;
	atomic_store(&refuse, true);
	reading_start(&r);
	assert_code(r.map.find(r.map.self, "one", address, &err), CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "not known yet"));
	atomic_store(&refuse, false);
	reading_stop(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_has_the_address_of_its_endpoint),
		cmocka_unit_test(unknown_is_not_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
