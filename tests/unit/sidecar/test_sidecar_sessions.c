/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens of sessions against a scripted API server, and streams with them. */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/digest.h"
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

/* Callers that hold their place until they are released. */
struct crowd {
	struct sidecar_sessions *sessions;
	atomic_uint begun, waiting;
	atomic_bool released;
};

static int hold_place(const void *arg)
{
	struct crowd *crowd = (struct crowd *)(uintptr_t)arg;

	atomic_fetch_add(&crowd->waiting, 1);
	while (!atomic_load(&crowd->released))
		cairn_sleep_ms(5);
	return CAIRN_CANCELLED;
}

static void *guess(void *arg)
{
	struct crowd *crowd = arg;
	char address[32];
	struct kube_digest origin;
	const struct kube_wait wait = {
		.deadline_ns = UINT64_MAX, .check = hold_place, .arg = arg, .origin = &origin};
	json_t *found = NULL;

	/* As many of one address as may wait. */
	snprintf(address, sizeof(address), "%u",
		 atomic_fetch_add(&crowd->begun, 1) / SIDECAR_SESSIONS_WAITING_EACH);
	origin = kube_digest_of(address, NULL);

	assert_code(sidecar_sessions_find(((struct crowd *)arg)->sessions, "guess", &wait, &found,
					  NULL),
		    CAIRN_CANCELLED);
	return NULL;
}

static void guesses_of_others_do_not_make_a_token_bad(void **state)
{
	static atomic_bool away;
	pthread_t threads[SIDECAR_SESSIONS_WAITING / 2], rest[SIDECAR_SESSIONS_WAITING / 2];
	const struct kube_digest first = kube_digest_of("0", NULL);
	const struct kube_digest other = kube_digest_of("other", NULL);
	struct kube_wait wait = {.deadline_ns = UINT64_MAX};
	struct scripted_server server;
	struct crowd crowd = {0};
	struct kube_client *client;
	json_t *found = NULL;

	(void)state;
	scripted_start(&server, play, &away);
	client = scripted_client(&server, "token: t", NULL);
	assert_code(sidecar_sessions_new(client, "here", &crowd.sessions, NULL), 0);
	wait_for_code(crowd.sessions, CAIRN_UNAUTHENTICATED);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, guess, &crowd), 0);
	while (atomic_load(&crowd.waiting) < ARRAY_LEN(threads))
		cairn_sleep_ms(5);
	/* The share of one address is used up, and the others wait as ever. */
	wait.origin = &first;
	assert_code(sidecar_sessions_find(crowd.sessions, "new", &wait, &found, NULL),
		    CAIRN_UNAVAILABLE);
	wait.origin = &other;
	assert_code(sidecar_sessions_find(crowd.sessions, "new", &wait, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	for (size_t i = 0; i < ARRAY_LEN(rest); i++)
		assert_int_equal(pthread_create(&rest[i], NULL, guess, &crowd), 0);
	while (atomic_load(&crowd.waiting) < SIDECAR_SESSIONS_WAITING)
		cairn_sleep_ms(5);
	assert_code(sidecar_sessions_find(crowd.sessions, "new", &wait, &found, NULL),
		    CAIRN_UNAVAILABLE);
	/* What is no name needs no waiting. */
	assert_code(sidecar_sessions_find(crowd.sessions, "eyJ_x.Y", &wait, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	assert_code(sidecar_sessions_find(crowd.sessions, "", &wait, &found, NULL),
		    CAIRN_UNAUTHENTICATED);
	atomic_store(&crowd.released, true);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		pthread_join(threads[i], NULL);
		pthread_join(rest[i], NULL);
	}
	wait_for_code(crowd.sessions, CAIRN_UNAUTHENTICATED);
	sidecar_sessions_free(crowd.sessions);
	kube_client_free(client);
	scripted_stop(&server);
}

/* --- streams of sessions --- */

#define SESSION(token, ns, snapshot)                                                          \
	"{\"metadata\":{\"name\":\"" token "\",\"namespace\":\"here\","                       \
	"\"resourceVersion\":\"5\"},"                                                         \
	"\"spec\":{\"expiryTime\":\"2099-01-01T00:00:00Z\",\"snapshots\":[\"" snapshot "\"]," \
	"\"snapshotNamespace\":\"" ns "\"}}"
#define SESSIONS                                                                                  \
	"{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" SESSION(                          \
		"one", "ns", "snap") "," SESSION("two", "ns", "snap") "," SESSION("other", "ns2", \
										  "else") "]}"

#define SESSION_ENDED "{\"type\":\"DELETED\",\"object\":" SESSION("two", "ns", "snap") "}\n"

static atomic_bool session_ends; /* the one called two */

static int list_sessions(struct scripted_server *server, struct net_http *http, unsigned n,
			 const struct scripted_request *request)
{
	(void)server;
	(void)n;
	if (!strstr(request->query, "watch=true"))
		return scripted_reply(http, 200, NULL, SESSIONS);
	if (net_http_begin(http, 200, "application/json", NULL) < 0)
		return CAIRN_CANCELLED;
	while (net_http_check(http) == 0) {
		if (atomic_exchange(&session_ends, false))
			net_http_write(http, SESSION_ENDED, strlen(SESSION_ENDED), NULL);
		cairn_sleep_ms(5);
	}
	return CAIRN_INTERNAL;
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

/* A sidecar that serves sessions of an API server that the test plays. */
struct serving {
	struct scripted_server server;
	struct kube_client *client;
	struct sidecar_sessions *sessions;
	struct sidecar_stage stage;
};

static void serving_start(struct serving *v, struct sidecar_options *o)
{
	struct cairn_err err = {0};

	scripted_start(&v->server, list_sessions, NULL);
	v->client = scripted_client(&v->server, "token: t", NULL);
	assert_ok(sidecar_sessions_new(v->client, "here", &v->sessions, &err), &err);
	wait_for_code(v->sessions, CAIRN_UNAUTHENTICATED);
	o->sessions = v->sessions;
	stage_prepare(&v->stage);
	world_snapshot(&v->stage.world, "ns2", "else");
	v->stage.script = stage_until_released;
	stage_driver_start(&v->stage);
	stage_start(&v->stage, o);
	stage_wait_ready(&v->stage, true);
}

static void serving_stop(struct serving *v)
{
	stage_stop(&v->stage);
	sidecar_sessions_free(v->sessions);
	kube_client_free(v->client);
	scripted_stop(&v->server);
}

/* Another session is no way around the limit of a user's streams. */
static void streams_are_counted_by_namespace_and_not_by_session(void **state)
{
	struct sidecar_options o = {
		.keep_ms = 60000, .streams = 4, .streams_each = 1, .wait_ms = 50};
	struct net_rpc *one, *other;
	struct serving serving = {0};
	struct sidecar_stage *s = &serving.stage;
	struct cairn_err err = {0};

	(void)state;
	serving_start(&serving, &o);
	one = call_in_session(s, "one", "snap");
	wait_for_running(s, 1);
	assert_int_equal(stage_finish(call_in_session(s, "two", "snap"), NULL, &err),
			 CAIRN_NO_SPACE);
	other = call_in_session(s, "other", "else");
	wait_for_running(s, 2);
	s->release = true;
	assert_ok(stage_finish(one, NULL, &err), &err);
	assert_ok(stage_finish(other, NULL, &err), &err);
	serving_stop(&serving);
}

static void a_session_that_ends_while_it_waits_is_refused(void **state)
{
	struct sidecar_options o = {
		.keep_ms = 60000, .streams = 1, .waiting = 4, .wait_ms = PATIENCE_MS};
	struct net_rpc *one, *two;
	struct serving serving = {0};
	struct sidecar_stage *s = &serving.stage;
	struct cairn_err err = {0};
	json_t *found = NULL;

	(void)state;
	serving_start(&serving, &o);
	one = call_in_session(s, "one", "snap");
	wait_for_running(s, 1);
	two = call_in_session(s, "two", "snap");
	cairn_sleep_ms(100);
	session_ends = true;
	while (sidecar_sessions_find(o.sessions, "two", &(struct kube_wait){0}, &found, NULL) ==
	       0) {
		json_decref(found);
		cairn_sleep_ms(5);
	}
	s->release = true;
	assert_ok(stage_finish(one, NULL, &err), &err);
	assert_int_equal(stage_finish(two, NULL, &err), CAIRN_UNAUTHENTICATED);
	serving_stop(&serving);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_not_called_bad_while_sessions_are_not_watched),
		cmocka_unit_test(guesses_of_others_do_not_make_a_token_bad),
		cmocka_unit_test(streams_are_counted_by_namespace_and_not_by_session),
		cmocka_unit_test(a_session_that_ends_while_it_waits_is_refused),
	};

	return cmocka_run_group_tests_name("sidecar/sessions", tests, NULL, NULL);
}
