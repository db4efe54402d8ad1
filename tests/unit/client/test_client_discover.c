/* SPDX-License-Identifier: Apache-2.0 */

/* What is learnt from a scripted API server: answers that a real one gives only
 * when objects are broken. tests/client/test_discovery.py has the real one. */

#include "client/discover.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cairntest.h"
#include "client/token.h"
#include "kube/kube_client.h"
#include "kube_fixture.h"

/* What the server answers with, by the end of the path. */
struct objects {
	const char *service, *user;
	int token_status;
	unsigned tokens;
	unsigned life_s; /* of a token */
};

static bool ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static int answer_token(struct objects *o, struct net_http *http)
{
	char body[256], when[32];
	time_t end = time(NULL) + (time_t)o->life_s;
	struct tm tm;

	if (o->token_status)
		return scripted_status(http, o->token_status, "Forbidden", "no", NULL);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &tm));
	snprintf(body, sizeof(body),
		 "{\"status\":{\"token\":\"token-%u\",\"expirationTimestamp\":\"%s\"}}",
		 ++o->tokens, when);
	return scripted_reply(http, 201, NULL, body);
}

static int answer(struct scripted_server *server, struct net_http *http, unsigned n,
		  const struct scripted_request *request)
{
	struct objects *o = server->arg;
	const char *body = NULL;

	(void)n;
	if (ends(request->path, "/snapshotmetadataservices/drv"))
		body = o->service;
	else if (ends(request->path, "/selfsubjectreviews"))
		body = o->user;
	else if (ends(request->path, "/token"))
		return answer_token(o, http);
	if (!body)
		return scripted_status(http, 404, "NotFound", "not there", NULL);
	return scripted_reply(http, strcmp(request->method, "POST") == 0 ? 201 : 200, NULL, body);
}

/* An API server with these objects, and a client of it. */
struct world {
	struct scripted_server server;
	struct objects objects;
	struct kube_client *kube;
};

static void world_start(struct world *w)
{
	scripted_start(&w->server, answer, &w->objects);
	w->kube = scripted_client(&w->server, "token: x", NULL);
}

static void world_stop(struct world *w)
{
	kube_client_free(w->kube);
	scripted_stop(&w->server);
}

#define SERVICE(address, audience, ca) \
	"{\"spec\":{\"address\":" address ",\"audience\":" audience ",\"caCert\":" ca "}}"

static void a_service_is_taken_only_whole(void **state)
{
	static const struct {
		const char *service;
		int code;
	} cases[] = {
		{SERVICE("\"a:1\"", "\"aud\"", "\"cGVt\""), 0},
		{SERVICE("\"a:1\"", "\"\"", "\"cGVtcw==\""), 0},
		{NULL, CAIRN_NOT_FOUND},
		{"{}", CAIRN_INTERNAL},
		{SERVICE("\"\"", "\"aud\"", "\"cGVt\""), CAIRN_INTERNAL},
		{SERVICE("\"a:1\"", "null", "\"cGVt\""), CAIRN_INTERNAL},
		{SERVICE("\"a:1\"", "\"aud\"", "7"), CAIRN_INTERNAL},
		{SERVICE("\"a:1\"", "\"aud\"", "\"\""), CAIRN_INTERNAL},
		{SERVICE("\"a:1\"", "\"aud\"", "\"not base64!\""), CAIRN_INTERNAL},
		{SERVICE("\"a:1\"", "\"aud\"", "\"AAAA\""), CAIRN_INTERNAL}, /* NUL bytes */
	};
	struct world w = {0};

	(void)state;
	world_start(&w);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct client_service service = {0};
		struct cairn_err err = {0};

		w.objects.service = cases[i].service;
		if (client_discover_service(w.kube, NULL, "drv", &service, &err) != cases[i].code)
			fail_msg("case %zu: %d %s", i, err.code, err.msg);
		assert_int_equal(service.address != NULL, !cases[i].code);
		if (!cases[i].code)
			assert_memory_equal(service.ca_pem, "pem", 3);
		client_service_done(&service);
	}
	world_stop(&w);
}

static void only_a_service_account_is_one(void **state)
{
	static const struct {
		const char *user;
		int code;
	} cases[] = {
		{"{\"status\":{\"userInfo\":{\"username\":\"system:serviceaccount:ns:me\"}}}", 0},
		{"{\"status\":{\"userInfo\":{\"username\":\"admin\"}}}", CAIRN_INVALID},
		{"{\"status\":{\"userInfo\":{\"username\":\"system:serviceaccount:ns\"}}}",
		 CAIRN_INVALID},
		{"{\"status\":{\"userInfo\":{\"username\":\"system:node:ns:me\"}}}", CAIRN_INVALID},
	};
	struct world w = {0};

	(void)state;
	world_start(&w);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct client_account account = {0};
		struct cairn_err err = {0};

		w.objects.user = cases[i].user;
		assert_code(client_discover_account(w.kube, NULL, &account, &err), cases[i].code);
		if (!cases[i].code) {
			assert_string_equal(account.namespace_name, "ns");
			assert_string_equal(account.name, "me");
		}
		client_account_done(&account);
	}
	world_stop(&w);
}

static void expect(struct client_tokens *tokens, const char *audience, enum client_token_need need,
		   int code, const char *want)
{
	cairn_cleanup(client_token_freep) char *token = NULL;
	struct cairn_err err = {0};

	assert_int_equal(client_token_get(tokens, NULL, audience, need, &token, &err), code);
	assert_null(strstr(err.msg, "token-"));
	if (want)
		assert_string_equal(token, want);
}

static void a_token_is_used_again_until_half_its_life_or_a_break(void **state)
{
	const struct cairn_client_options options = {.service_account = "me",
						     .service_account_namespace = "ns"};
	struct world w = {.objects = {.life_s = 600}};
	struct client_tokens tokens;

	(void)state;
	world_start(&w);
	client_tokens_init(&tokens, &options, w.kube);
	expect(&tokens, "one", CLIENT_TOKEN_ANY, 0, "token-1");
	expect(&tokens, "one", CLIENT_TOKEN_ANY, 0, "token-1");
	expect(&tokens, "two", CLIENT_TOKEN_ANY, 0, "token-2");
	expect(&tokens, "two", CLIENT_TOKEN_FRESH, 0, "token-3");
	expect(&tokens, "two", CLIENT_TOKEN_REFUSED, 0, "token-4");
	assert_non_null(strstr(w.server.seen[0].path, "/namespaces/ns/serviceaccounts/me/token"));
	assert_non_null(strstr(w.server.seen[0].body, "\"one\""));

	w.objects.token_status = 403; /* what is still good is used, unless it was refused */
	expect(&tokens, "two", CLIENT_TOKEN_FRESH, 0, "token-4");
	expect(&tokens, "two", CLIENT_TOKEN_REFUSED, CAIRN_DENIED, NULL);
	expect(&tokens, "three", CLIENT_TOKEN_ANY, CAIRN_DENIED, NULL);

	w.objects.token_status = 0;
	w.objects.life_s = 0; /* over as soon as it is here */
	expect(&tokens, "three", CLIENT_TOKEN_ANY, 0, "token-5");
	expect(&tokens, "three", CLIENT_TOKEN_ANY, 0, "token-6");
	client_tokens_done(&tokens);
	world_stop(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_is_taken_only_whole),
		cmocka_unit_test(only_a_service_account_is_one),
		cmocka_unit_test(a_token_is_used_again_until_half_its_life_or_a_break),
	};

	return cmocka_run_group_tests_name("client/discover", tests, NULL, NULL);
}
