/* SPDX-License-Identifier: Apache-2.0 */

/* A publisher against a scripted HTTPS server: a deleted object is put back at once. */

#include "cairntest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/publisher.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"

#define PATIENCE_MS 120000

#define OBJECT                                                                        \
	"{\"apiVersion\":\"cbt.storage.k8s.io/v1alpha2\","                            \
	"\"kind\":\"SnapshotServicesConfiguration\",\"metadata\":{\"name\":\"here\"," \
	"\"uid\":\"u\",\"resourceVersion\":\"7\"}}"

struct script {
	atomic_uint applied;
	bool forbidden; /* to list and to watch */
};

/* The object exists until it was applied once; then it is deleted. */
static int publisher_answer(struct scripted_server *server, struct net_http *http, unsigned n,
			    const struct scripted_request *request)
{
	static const char deleted[] = "{\"type\":\"DELETED\",\"object\":" OBJECT "}\n";
	struct script *script = server->arg;

	(void)n;
	if (strcmp(request->method, "PATCH") == 0) {
		atomic_fetch_add(&script->applied, 1);
		return scripted_reply(http, 200, NULL, OBJECT);
	}
	if (script->forbidden)
		return scripted_status(http, 403, "Forbidden", "no", NULL);
	if (!strstr(request->query, "watch=true"))
		return scripted_reply(http, 200, NULL,
				      "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[" OBJECT
				      "]}");
	if (net_http_begin(http, 200, "application/json", NULL) < 0)
		return CAIRN_CANCELLED;
	while (atomic_load(&script->applied) == 0 && net_http_check(http) == 0)
		cairn_sleep_ms(5);
	if (net_http_write(http, deleted, strlen(deleted), NULL) < 0)
		return CAIRN_CANCELLED;
	while (net_http_check(http) == 0)
		cairn_sleep_ms(5);
	return 0;
}

static void publish_until(struct script *script, unsigned times)
{
	struct scripted_server server;
	struct kube_publisher *publisher = NULL;
	struct kube_publish_options options = {
		.resource = &kube_snapshotservicesconfigurations,
		.object = kube_object_new(&kube_snapshotservicesconfigurations, NULL, "here"),
		.field_manager = "test",
	};
	struct kube_client *client;
	struct cairn_err err = {0};

	scripted_start(&server, publisher_answer, script);
	client = scripted_client(&server, "token: t", NULL);
	assert_ok(kube_publisher_new(client, &options, &publisher, &err), &err);
	for (int i = 0; i < PATIENCE_MS / 5 && atomic_load(&script->applied) < times; i++)
		cairn_sleep_ms(5);
	kube_client_shutdown(client);
	kube_publisher_free(publisher);
	kube_client_free(client);
	scripted_stop(&server);
	assert_int_equal(atomic_load(&script->applied), times);
}

static void a_deleted_object_is_applied_at_once(void **state)
{
	struct script script = {0};

	(void)state;
	publish_until(&script, 2);
}

static void without_the_right_to_watch_it_is_applied_all_the_same(void **state)
{
	struct script script = {.forbidden = true};

	(void)state;
	publish_until(&script, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_deleted_object_is_applied_at_once),
		cmocka_unit_test(without_the_right_to_watch_it_is_applied_all_the_same),
	};

	return cmocka_run_group_tests_name("kube/publisher", tests, NULL, NULL);
}
