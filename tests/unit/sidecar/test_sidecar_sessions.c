/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens of sessions against a scripted API server, and streams with them. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"
#include "sidecar/sessions.h"
#include "sidecar_driver.h"

#define PATIENCE_MS 60000

#define NO_SESSIONS "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}"
#define BOOKMARK    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n"

/* Watches are refused while the flag is set. */
static int play(struct scripted_server *server, struct net_http *http, unsigned n,
		const struct scripted_request *request)
{
	const atomic_bool *away = server->arg;

	(void)n;
	if (!strstr(request->query, "watch=true"))
		return scripted_reply(http, 200, NULL, NO_SESSIONS);
	if (atomic_load(away))
		return scripted_status(http, 500, "InternalError", "no", NULL);
	if (net_http_begin(http, 200, "application/json", NULL) < 0 ||
	    net_http_write(http, BOOKMARK, strlen(BOOKMARK), NULL) < 0)
		return CAIRN_CANCELLED;
	while (!atomic_load(away) && net_http_check(http) == 0)
		cairn_sleep_ms(5);
	return CAIRN_INTERNAL;
}

/* Asks for an unknown token until the answer is `code`. */
static void wait_for_code(struct sidecar_sessions *sessions, int code)
{
	uint64_t until = cairn_monotonic_ns() + PATIENCE_MS * CAIRN_NS_PER_MS;
	const struct kube_wait wait = {.deadline_ns = until};
	int rc;

	do {
		struct cairn_err err = {0};
		json_t *found = NULL;

		rc = sidecar_sessions_find(sessions, "unknown", &wait, &found, &err);
		assert_null(found);
		assert_true(rc == CAIRN_UNAVAILABLE || rc == CAIRN_UNAUTHENTICATED);
	} while (rc != code && cairn_monotonic_ns() < until);
	assert_int_equal(rc, code);
}

static void a_token_is_not_called_bad_while_sessions_are_not_watched(void **state)
{
	static atomic_bool away;
	struct scripted_server server;
	struct sidecar_sessions *sessions = NULL;
	struct cairn_err err = {0};
	struct kube_client *client;

	(void)state;
	scripted_start(&server, play, &away);
	client = scripted_client(&server, "token: t", NULL);
	assert_ok(sidecar_sessions_new(client, "here", &sessions, &err), &err);
	wait_for_code(sessions, CAIRN_UNAUTHENTICATED);
	atomic_store(&away, true);
	wait_for_code(sessions, CAIRN_UNAVAILABLE);
	atomic_store(&away, false);
	wait_for_code(sessions, CAIRN_UNAUTHENTICATED);
	sidecar_sessions_free(sessions);
	kube_client_free(client);
	scripted_stop(&server);
}

/* --- streams of sessions --- */

#define SESSION(token, ns, snapshot)                                                          \
	"{\"metadata\":{\"name\":\"" token "\",\"namespace\":\"here\"},"                      \
	"\"spec\":{\"expiryTime\":\"2099-01-01T00:00:00Z\",\"snapshots\":[\"" snapshot "\"]," \
	"\"snapshotNamespace\":\"" ns "\"}}"
#define SESSIONS                                                                                  \
	"{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" SESSION(                          \
		"one", "ns", "snap") "," SESSION("two", "ns", "snap") "," SESSION("other", "ns2", \
										  "else") "]}"

static int list_sessions(struct scripted_server *server, struct net_http *http, unsigned n,
			 const struct scripted_request *request)
{
	(void)server;
	(void)n;
	if (!strstr(request->query, "watch=true"))
		return scripted_reply(http, 200, NULL, SESSIONS);
	if (net_http_begin(http, 200, "application/json", NULL) < 0)
		return CAIRN_CANCELLED;
	while (net_http_check(http) == 0)
		cairn_sleep_ms(5);
	return CAIRN_INTERNAL;
}

static int until_released(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			  size_t n, struct cairn_err *err)
{
	int rc = stage_send(s, call, 0, 1, err);

	(void)request;
	(void)n;
	while (rc == 0 && !s->release)
		rc = net_call_sleep(call, 5, err);
	return rc;
}

static struct net_rpc *call_in_session(struct sidecar_stage *s, const char *token,
				       const char *snapshot)
{
	const struct net_rpc_options options = {.path = "/SnapshotMetadata/GetAllocated",
						.timeout_ms = PATIENCE_MS};
	struct cairn_err err = {0};
	struct net_rpc *rpc = NULL;
	char request[128];
	int n = snprintf(request, sizeof(request), "\n%c%s\x12\x03vol\x1a%c%s", (int)strlen(token),
			 token, (int)strlen(snapshot), snapshot);

	assert_ok(net_rpc_start(s->channel, &options, &rpc, &err), &err);
	assert_ok(net_rpc_send(rpc, request, (size_t)n, true, &err), &err);
	return rpc;
}

static void wait_for_running(struct sidecar_stage *s, unsigned n)
{
	for (int i = 0; i < PATIENCE_MS / 10 && s->running != n; i++)
		cairn_sleep_ms(10);
	assert_int_equal(s->running, n);
}

/* Another session is no way around the limit of a user's streams. */
static void streams_are_counted_by_namespace_and_not_by_session(void **state)
{
	struct sidecar_options o = {
		.keep_ms = 60000, .streams = 4, .streams_each = 1, .wait_ms = 50};
	struct net_rpc *one, *other;
	struct scripted_server server;
	struct sidecar_stage s;
	struct cairn_err err = {0};
	struct kube_client *client;

	(void)state;
	scripted_start(&server, list_sessions, NULL);
	client = scripted_client(&server, "token: t", NULL);
	assert_ok(sidecar_sessions_new(client, "here", &o.sessions, &err), &err);
	wait_for_code(o.sessions, CAIRN_UNAUTHENTICATED);
	stage_prepare(&s);
	world_snapshot(&s.world, "ns2", "else");
	s.script = until_released;
	stage_driver_start(&s);
	stage_start(&s, &o);
	stage_wait_ready(&s, true);
	one = call_in_session(&s, "one", "snap");
	wait_for_running(&s, 1);
	assert_int_equal(stage_finish(call_in_session(&s, "two", "snap"), NULL, &err),
			 CAIRN_NO_SPACE);
	other = call_in_session(&s, "other", "else");
	wait_for_running(&s, 2);
	s.release = true;
	assert_ok(stage_finish(one, NULL, &err), &err);
	assert_ok(stage_finish(other, NULL, &err), &err);
	stage_stop(&s);
	sidecar_sessions_free(o.sessions);
	kube_client_free(client);
	scripted_stop(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_not_called_bad_while_sessions_are_not_watched),
		cmocka_unit_test(streams_are_counted_by_namespace_and_not_by_session),
	};

	return cmocka_run_group_tests_name("sidecar/sessions", tests, NULL, NULL);
}
