/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens of sessions against a scripted API server whose watch breaks. */

#include "cairntest.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "kube/client.h"
#include "kube/wait.h"
#include "kube_fixture.h"
#include "net/http.h"
#include "sidecar/sessions.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_is_not_called_bad_while_sessions_are_not_watched),
	};

	return cmocka_run_group_tests_name("sidecar/sessions", tests, NULL, NULL);
}
