/* SPDX-License-Identifier: Apache-2.0 */

/* The client against a scripted HTTPS server: what goes over the wire, and what
 * becomes of failures. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "kube/auth.h"
#include "kube/forward.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/object.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"

#define POD \
	"{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\"},\"x\":{\"zero\":0}}"

static int always_pod(struct scripted_server *server, struct net_http *http, unsigned n,
		      const struct scripted_request *request)
{
	(void)server;
	(void)n;
	(void)request;
	return scripted_reply(http, 200, NULL, POD);
}

struct world {
	struct scripted_server server;
	struct kube_client *client;
};

static void begin(struct world *w, scripted_answer answer, void *arg)
{
	scripted_start(&w->server, answer, arg);
	w->client = scripted_client(&w->server, "token: sesame",
				    &(struct kube_client_options){.qps = -1});
}

static void finish(struct world *w)
{
	kube_client_free(w->client);
	scripted_stop(&w->server);
}

static void an_object_is_got_with_what_nobody_knows_in_it(void **state)
{
	kube_auto_json json_t *pod = NULL;
	struct cairn_err err = {0};
	struct world w;
	int64_t zero = 7;

	(void)state;
	begin(&w, always_pod, NULL);
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, &pod, &err), &err);
	assert_string_equal(kube_name(pod), "p");
	assert_true(kube_i64(pod, &zero, "x", "zero"));
	assert_int_equal(zero, 0);
	assert_string_equal(w.server.seen[0].method, "GET");
	assert_string_equal(w.server.seen[0].path, "/api/v1/namespaces/ns/pods/p");
	assert_string_equal(w.server.seen[0].authorization, "Bearer sesame");
	finish(&w);
}

static void many_calls_share_a_connection(void **state)
{
	struct kube_client_stats stats;
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, always_pod, NULL);
	for (int i = 0; i < 50; i++)
		assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err),
			  &err);
	kube_client_stats(w.client, &stats);
	assert_int_equal(stats.requests, 50);
	assert_int_equal(stats.connections, 1);
	finish(&w);
}

static void writes_say_who_writes_and_how(void **state)
{
	static const struct {
		const char *method, *path, *query, *type;
	} want[] = {
		{"POST", "/api/v1/namespaces/ns/pods", "fieldManager=cairn", "application/json"},
		{"PUT", "/api/v1/namespaces/ns/pods/p/status", "fieldManager=me&dryRun=All",
		 "application/json"},
		{"PATCH", "/api/v1/namespaces/ns/pods/p", "fieldManager=cairn",
		 "application/merge-patch+json"},
		{"PATCH", "/api/v1/namespaces/ns/pods/p", "fieldManager=cairn&force=true",
		 "application/apply-patch+yaml"},
		{"DELETE", "/api/v1/namespaces/ns/pods/p", "", "application/json"},
		{"DELETE", "/api/v1/namespaces/ns/pods", "labelSelector=a%3Db", ""},
	};
	const struct kube_call how = {.field_manager = "me", .dry_run = true};
	kube_auto_json json_t *pod = kube_object_new(&kube_pods, "ns", "p");
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, always_pod, NULL);
	assert_ok(kube_create(w.client, KUBE_REF(&kube_pods, "ns", "p"), pod, NULL, NULL, &err),
		  &err);
	assert_ok(kube_update(w.client, KUBE_SUB(&kube_pods, "ns", "p", "status"), pod, &how, NULL,
			      &err),
		  &err);
	assert_ok(kube_patch(w.client, KUBE_REF(&kube_pods, "ns", "p"), KUBE_PATCH_MERGE, pod, NULL,
			     NULL, &err),
		  &err);
	assert_ok(
		kube_apply(w.client, KUBE_REF(&kube_pods, "ns", "p"), pod, true, NULL, NULL, &err),
		&err);
	assert_ok(kube_delete(w.client, KUBE_REF(&kube_pods, "ns", "p"),
			      &(struct kube_delete_options){.uid = "u", .has_grace = true}, NULL,
			      NULL, &err),
		  &err);
	assert_ok(kube_delete_collection(w.client, KUBE_REF(&kube_pods, "ns", NULL),
					 &(struct kube_list_query){.label_selector = "a=b"}, NULL,
					 &err),
		  &err);
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		assert_string_equal(w.server.seen[i].method, want[i].method);
		assert_string_equal(w.server.seen[i].path, want[i].path);
		assert_string_equal(w.server.seen[i].query, want[i].query);
		assert_string_equal(w.server.seen[i].content_type, want[i].type);
	}
	assert_non_null(strstr(w.server.seen[4].body, "\"preconditions\":{\"uid\":\"u\"}"));
	assert_non_null(strstr(w.server.seen[4].body, "\"gracePeriodSeconds\":0"));
	finish(&w);
}

static void names_from_outside_never_become_other_paths(void **state)
{
	static const char *const bad[] = {"", ".", ".."};
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, always_pod, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_code(
			kube_get(w.client, KUBE_REF(&kube_pods, "ns", bad[i]), NULL, NULL, &err),
			CAIRN_INVALID);
	assert_int_equal(scripted_count(&w.server), 0);
	assert_code(kube_get(w.client, KUBE_REF(&kube_pods, NULL, "p"), NULL, NULL, &err),
		    CAIRN_INVALID);
	assert_code(kube_get(w.client, KUBE_REF(&kube_nodes, "ns", "n"), NULL, NULL, &err),
		    CAIRN_INVALID);
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "a?b"), NULL, NULL, &err), &err);
	assert_string_equal(w.server.seen[0].path, "/api/v1/namespaces/ns/pods/a?b");
	assert_string_equal(w.server.seen[0].query, "");
	finish(&w);
}

struct refusal {
	int http;
	const char *reason;
	int code;
};

static int refuse(struct scripted_server *server, struct net_http *http, unsigned n,
		  const struct scripted_request *request)
{
	const struct refusal *refusal = server->arg;

	(void)n;
	(void)request;
	return scripted_status(http, refusal->http, refusal->reason, "the server says no", NULL);
}

static void each_refusal_has_its_code_and_the_servers_words(void **state)
{
	static const struct refusal cases[] = {
		{400, "BadRequest", CAIRN_INVALID},
		{401, "Unauthorized", CAIRN_UNAUTHENTICATED},
		{403, "Forbidden", CAIRN_DENIED},
		{404, "NotFound", CAIRN_NOT_FOUND},
		{405, "MethodNotAllowed", CAIRN_UNIMPLEMENTED},
		{409, "AlreadyExists", CAIRN_EXISTS},
		{409, "Conflict", CAIRN_ABORTED},
		{410, "Expired", CAIRN_RANGE},
		{422, "Invalid", CAIRN_INVALID},
		{500, "InternalError", CAIRN_INTERNAL},
		{504, "Timeout", CAIRN_DEADLINE},
		{418, "Teapot", CAIRN_INTERNAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kube_status status;
		const struct kube_call how = {.status = &status, .once = true};
		struct refusal refusal = cases[i];
		struct cairn_err err = {0};
		struct world w;

		begin(&w, refuse, &refusal);
		assert_code(kube_get(w.client, KUBE_REF(&kube_nodes, NULL, "n"), &how, NULL, &err),
			    cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		assert_string_equal(err.msg, "the server says no");
		assert_int_equal(status.http, cases[i].http);
		assert_string_equal(status.reason, cases[i].reason);
		assert_int_equal(scripted_count(&w.server), 1);
		finish(&w);
	}
}

static int later_twice(struct scripted_server *server, struct net_http *http, unsigned n,
		       const struct scripted_request *request)
{
	const int *status = server->arg;

	(void)request;
	if (n < 2)
		return scripted_status(http, *status, "TooManyRequests", "later", "0");
	return scripted_reply(http, 200, NULL, POD);
}

static void what_the_server_puts_off_is_asked_again(void **state)
{
	static const int statuses[] = {429, 503, 500};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
		kube_auto_json json_t *body = kube_object_new(&kube_pods, "ns", "p");
		struct kube_client_stats stats;
		struct cairn_err err = {0};
		int status = statuses[i];
		struct world w;

		begin(&w, later_twice, &status);
		assert_ok(kube_create(w.client, KUBE_REF(&kube_pods, "ns", "p"), body, NULL, NULL,
				      &err),
			  &err);
		kube_client_stats(w.client, &stats);
		assert_int_equal(stats.requests, 3);
		assert_int_equal(stats.retries, 2);
		finish(&w);
	}
}

static int much_later(struct scripted_server *server, struct net_http *http, unsigned n,
		      const struct scripted_request *request)
{
	(void)n;
	(void)request;
	return scripted_status(http, 429, "TooManyRequests", "later", server->arg);
}

static void a_wait_beyond_the_deadline_is_not_begun(void **state)
{
	static const char *const waits[] = {"30", "3600"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(waits); i++) {
		struct kube_status status;
		const struct kube_call how = {.status = &status, .timeout_ms = 20000};
		struct cairn_err err = {0};
		char wait[8];
		struct world w;

		snprintf(wait, sizeof(wait), "%s", waits[i]);
		begin(&w, much_later, wait);
		assert_code(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), &how, NULL, &err),
			    CAIRN_UNAVAILABLE);
		assert_int_equal(scripted_count(&w.server), 1);
		assert_true(status.retry_after);
		assert_true(status.retry_ms >= 30000);
		finish(&w);
	}
}

static int break_off(struct scripted_server *server, struct net_http *http, unsigned n,
		     const struct scripted_request *request)
{
	(void)server;
	(void)request;
	if (n >= 2)
		return scripted_reply(http, 200, NULL, POD);
	(void)net_http_begin(http, 200, "application/json", NULL);
	(void)net_http_write(http, "{\"kind", 6, NULL);
	return CAIRN_INTERNAL;
}

static void a_read_that_broke_is_repeated_and_a_write_is_not(void **state)
{
	kube_auto_json json_t *body = kube_object_new(&kube_pods, "ns", "p");
	kube_auto_json json_t *pod = NULL;
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, break_off, NULL);
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, &pod, &err), &err);
	assert_string_equal(kube_name(pod), "p");
	assert_int_equal(scripted_count(&w.server), 3);
	finish(&w);

	begin(&w, break_off, NULL);
	assert_code(kube_create(w.client, KUBE_REF(&kube_pods, "ns", "p"), body, NULL, NULL, &err),
		    CAIRN_UNAVAILABLE);
	assert_int_equal(scripted_count(&w.server), 1);
	finish(&w);
}

/* A body in three pieces; each is sent when the one before was received. */
static int in_pieces(struct scripted_server *server, struct net_http *http, unsigned n,
		     const struct scripted_request *request)
{
	static const char *const pieces[] = {"{\"kind\":", "\"Status\",", "\"code\":422}"};
	atomic_uint *received = server->arg;
	struct cairn_err err = {0};
	int rc = net_http_begin(http, 422, "application/json", &err);

	(void)n;
	(void)request;
	for (unsigned i = 0; !rc && i < 3; i++) {
		while (atomic_load(received) < i)
			usleep(1000);
		rc = net_http_write(http, pieces[i], strlen(pieces[i]), &err);
	}
	return rc;
}

static void a_passed_body_of_several_pieces_is_whole(void **state)
{
	cairn_auto_buf struct cairn_buf whole = CAIRN_BUF_INIT(1U << 16);
	cairn_auto_buf struct cairn_buf first = CAIRN_BUF_INIT(1U << 16);
	struct kube_forward *forward = NULL;
	struct cairn_err err = {0};
	atomic_uint received = 0;
	struct world w;

	(void)state;
	begin(&w, in_pieces, &received);
	assert_ok(kube_forward_open(w.client,
				    &(struct kube_forward_request){.method = "GET", .path = "/x"},
				    NULL, &forward, &err),
		  &err);
	assert_int_equal(kube_forward_http(forward), 422);
	assert_int_equal(kube_forward_read(forward, &first, &err), 1);
	cairn_buf_add(&whole, first.data, first.len);
	/* The last two arrive while they are read, or before. */
	atomic_store(&received, 2);
	assert_ok(kube_forward_read_all(forward, &whole, &err), &err);
	cairn_buf_addc(&whole, '\0');
	assert_string_equal((const char *)whole.data, "{\"kind\":\"Status\",\"code\":422}");
	kube_forward_free(forward);
	finish(&w);
}

static void a_server_that_is_not_there_is_unavailable(void **state)
{
	kube_auto_json json_t *body = kube_object_new(&kube_pods, "ns", "p");
	struct kube_client_stats stats;
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, always_pod, NULL);
	net_http_server_free(w.server.http);
	w.server.http = NULL;
	assert_code(kube_create(w.client, KUBE_REF(&kube_pods, "ns", "p"), body, NULL, NULL, &err),
		    CAIRN_UNAVAILABLE);
	kube_client_stats(w.client, &stats);
	assert_int_equal(stats.retries, KUBE_BREAKS);
	finish(&w);
}

static int hang(struct scripted_server *server, struct net_http *http, unsigned n,
		const struct scripted_request *request)
{
	(void)server;
	(void)n;
	(void)request;
	while (net_http_check(http) == 0)
		cairn_sleep_ms(5);
	return CAIRN_CANCELLED;
}

static int give_up_at_third(void *arg)
{
	int *asked = arg;

	return ++*asked >= 3 ? CAIRN_CANCELLED : 0;
}

static void a_call_ends_by_its_deadline_and_by_its_check(void **state)
{
	struct cairn_err err = {0};
	struct world w;
	int asked = 0;

	(void)state;
	begin(&w, hang, NULL);
	assert_code(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"),
			     &(struct kube_call){.timeout_ms = 100}, NULL, &err),
		    CAIRN_DEADLINE);
	assert_code(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"),
			     &(struct kube_call){.check = give_up_at_third, .check_arg = &asked},
			     NULL, &err),
		    CAIRN_CANCELLED);
	assert_int_equal(asked, 3);
	kube_client_shutdown(w.client);
	assert_code(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err),
		    CAIRN_CANCELLED);
	finish(&w);
}

static int pages(struct scripted_server *server, struct net_http *http, unsigned n,
		 const struct scripted_request *request)
{
	static const char *const answers[] = {
		"{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"c1\"},"
		"\"items\":[{\"metadata\":{\"name\":\"a\"}}]}",
		"{\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"c2\"},"
		"\"items\":[{\"metadata\":{\"name\":\"b\"}}]}",
		"{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":null}",
	};

	if (server->arg && strstr(request->query, "continue=c2"))
		return scripted_status(http, 410, "Expired", "too old", NULL);
	if (server->arg && n == 3)
		return scripted_reply(http, 200, NULL,
				      "{\"metadata\":{\"resourceVersion\":\"9\"},"
				      "\"items\":[{\"metadata\":{\"name\":\"z\"}}]}");
	return scripted_reply(http, 200, NULL, answers[n < 3 ? n : 2]);
}

static void a_list_is_gathered_from_its_pages(void **state)
{
	kube_auto_json json_t *list = NULL;
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, pages, NULL);
	assert_ok(kube_list(w.client, KUBE_REF(&kube_pods, NULL, NULL),
			    &(struct kube_list_query){.limit = 1, .resource_version = "0"}, NULL,
			    &list, &err),
		  &err);
	assert_int_equal(json_array_size(kube_at(list, "items")), 2);
	assert_string_equal(kube_resource_version(list), "7");
	assert_null(kube_at(list, "metadata", "continue"));
	assert_string_equal(w.server.seen[0].query, "limit=1&resourceVersion=0");
	assert_string_equal(w.server.seen[1].query, "continue=c1&limit=1");
	finish(&w);
}

static void a_list_that_expires_between_pages_is_begun_again(void **state)
{
	kube_auto_json json_t *list = NULL;
	struct cairn_err err = {0};
	bool expire = true;
	struct world w;

	(void)state;
	begin(&w, pages, &expire);
	assert_ok(kube_list(w.client, KUBE_REF(&kube_pods, NULL, NULL), NULL, NULL, &list, &err),
		  &err);
	assert_int_equal(json_array_size(kube_at(list, "items")), 1);
	assert_string_equal(kube_resource_version(list), "9");
	assert_string_equal(w.server.seen[3].query, "");
	finish(&w);
}

static int wants_new_token(struct scripted_server *server, struct net_http *http, unsigned n,
			   const struct scripted_request *request)
{
	(void)n;
	if (strcmp(request->authorization, "Bearer new") == 0)
		return scripted_reply(http, 200, NULL, POD);
	scripted_write(server, "token", "new\n");
	return scripted_status(http, 401, "Unauthorized", "Unauthorized", NULL);
}

static void a_refused_token_is_read_again_from_its_file(void **state)
{
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	scripted_start(&w.server, wants_new_token, NULL);
	scripted_write(&w.server, "token", "old\n");
	w.client = scripted_client(&w.server, "tokenFile: token", NULL);
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err), &err);
	assert_int_equal(scripted_count(&w.server), 2);
	finish(&w);
}

/* Callers take NOT_FOUND for the absence of the object. */
static void credentials_that_are_missing_are_not_a_missing_object(void **state)
{
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	scripted_start(&w.server, wants_new_token, NULL);
	w.client = scripted_client(&w.server, "tokenFile: token", NULL);
	assert_int_equal(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err),
			 CAIRN_UNAVAILABLE);
	assert_int_equal(err.code, CAIRN_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "credentials: "));
	assert_int_equal(scripted_count(&w.server), 0);
	finish(&w);
}

static void the_client_keeps_to_its_own_rate(void **state)
{
	struct kube_client_stats stats;
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	scripted_start(&w.server, always_pod, NULL);
	w.client = scripted_client(&w.server, "token: t",
				   &(struct kube_client_options){.qps = 20, .burst = 2});
	for (int i = 0; i < 6; i++)
		assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err),
			  &err);
	kube_client_stats(w.client, &stats);
	assert_true(stats.limited_ns > 0);
	finish(&w);
}

static void a_call_that_its_rate_leaves_no_time_for_is_not_made(void **state)
{
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	scripted_start(&w.server, always_pod, NULL);
	w.client = scripted_client(&w.server, "token: t",
				   &(struct kube_client_options){.qps = 0.001, .burst = 1});
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err), &err);
	assert_code(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err),
		    CAIRN_DEADLINE);
	assert_int_equal(scripted_count(&w.server), 1);
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"),
			   &(struct kube_call){.urgent = true}, NULL, &err),
		  &err);
	finish(&w);
}

static int give_up_while_waiting(void *arg)
{
	unsigned *asked = arg;

	return ++*asked > 1 ? CAIRN_CANCELLED : 0;
}

static void calls_that_are_given_up_use_up_no_rate(void **state)
{
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	scripted_start(&w.server, always_pod, NULL);
	w.client = scripted_client(&w.server, "token: t",
				   &(struct kube_client_options){.qps = 2, .burst = 1});
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), NULL, NULL, &err), &err);
	for (int i = 0; i < 500; i++) {
		unsigned asked = 0;
		struct kube_call how = {
			.timeout_ms = 3600000,
			.check = give_up_while_waiting,
			.check_arg = &asked,
		};

		(void)kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"), &how, NULL, NULL);
	}
	/* With the 500 places in the line kept, this would take four minutes. */
	assert_ok(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"),
			   &(struct kube_call){.timeout_ms = 60000}, NULL, &err),
		  &err);
	finish(&w);
}

static int huge(struct scripted_server *server, struct net_http *http, unsigned n,
		const struct scripted_request *request)
{
	static char piece[1U << 20];
	int rc = net_http_begin(http, 200, "application/json", NULL);

	(void)server;
	(void)n;
	(void)request;
	memset(piece, ' ', sizeof(piece));
	for (int i = 0; rc == 0 && i < 70; i++)
		rc = net_http_write(http, piece, sizeof(piece), NULL);
	return rc;
}

static void an_answer_without_end_is_broken_off(void **state)
{
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, huge, NULL);
	/* It is large: a busy machine needs longer than other calls have. */
	assert_code(kube_get(w.client, KUBE_REF(&kube_pods, "ns", "p"),
			     &(struct kube_call){.timeout_ms = 600000}, NULL, &err),
		    CAIRN_NO_SPACE);
	finish(&w);
}

static int review(struct scripted_server *server, struct net_http *http, unsigned n,
		  const struct scripted_request *request)
{
	(void)server;
	(void)n;
	if (strstr(request->path, "tokenreviews"))
		return scripted_reply(
			http, 201, NULL,
			"{\"spec\":{\"token\":\"tok\"},\"status\":{\"authenticated\":true,"
			"\"user\":{\"username\":\"u\",\"uid\":\"1\",\"groups\":[\"g\"]},"
			"\"audiences\":[\"a\"]}}");
	if (strstr(request->path, "/token"))
		return scripted_reply(http, 201, NULL,
				      "{\"status\":{\"token\":\"made\","
				      "\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}}");
	return scripted_reply(http, 201, NULL,
			      "{\"status\":{\"allowed\":true,\"reason\":\"because\"}}");
}

static void tokens_and_rights_are_asked_for(void **state)
{
	const char *const audiences[] = {"a", "b", NULL};
	struct kube_token_review answer;
	struct kube_access_answer access;
	struct kube_token token;
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	begin(&w, review, NULL);
	assert_ok(kube_token_review(w.client, "tok", audiences, NULL, &answer, &err), &err);
	assert_true(answer.authenticated);
	assert_true(kube_token_review_has(&answer, "a"));
	assert_false(kube_token_review_has(&answer, "b"));
	assert_non_null(strstr(w.server.seen[0].body, "\"audiences\":[\"a\",\"b\"]"));
	assert_ok(
		kube_access_review(w.client, answer.user,
				   &(struct kube_access){
					   .verb = "get", .group = "g", .resource = "r", .ns = "n"},
				   NULL, &access, &err),
		&err);
	assert_true(access.allowed);
	assert_string_equal(access.reason, "because");
	assert_string_equal(w.server.seen[1].path,
			    "/apis/authorization.k8s.io/v1/subjectaccessreviews");
	assert_non_null(strstr(w.server.seen[1].body, "\"user\":\"u\""));
	assert_non_null(strstr(w.server.seen[1].body, "\"groups\":[\"g\"]"));
	kube_token_review_done(&answer);
	assert_ok(kube_token_request(w.client,
				     &(struct kube_token_request){.ns = "n",
								  .service_account = "sa",
								  .audiences = audiences,
								  .expiry_s = 600},
				     NULL, &token, &err),
		  &err);
	assert_string_equal(token.token, "made");
	assert_int_equal(token.expires_ns / CAIRN_NS_PER_SEC, 1893456000);
	assert_string_equal(w.server.seen[2].path, "/api/v1/namespaces/n/serviceaccounts/sa/token");
	kube_token_done(&token);
	finish(&w);
}

static void a_server_with_another_certificate_is_not_spoken_to(void **state)
{
	struct scripted_server other;
	struct kube_client *client;
	struct kube_config *config;
	struct cairn_err err = {0};
	struct world w;
	uint16_t port;

	(void)state;
	begin(&w, always_pod, NULL);
	scripted_start(&other, always_pod, NULL);
	port = other.port;
	other.port = w.server.port; /* the one's address with the other's authority */
	config = scripted_config(&other, "token: secret-one");
	other.port = port;
	assert_ok(kube_client_new(config, NULL, &client, &err), &err);
	assert_code(kube_get(client, KUBE_REF(&kube_pods, "ns", "p"),
			     &(struct kube_call){.once = true}, NULL, &err),
		    CAIRN_UNAVAILABLE);
	assert_null(strstr(err.msg, "secret-one"));
	assert_int_equal(scripted_count(&w.server), 0);
	kube_client_free(client);
	kube_config_free(config);
	scripted_stop(&other);
	finish(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_is_got_with_what_nobody_knows_in_it),
		cmocka_unit_test(many_calls_share_a_connection),
		cmocka_unit_test(writes_say_who_writes_and_how),
		cmocka_unit_test(names_from_outside_never_become_other_paths),
		cmocka_unit_test(each_refusal_has_its_code_and_the_servers_words),
		cmocka_unit_test(what_the_server_puts_off_is_asked_again),
		cmocka_unit_test(a_wait_beyond_the_deadline_is_not_begun),
		cmocka_unit_test(a_read_that_broke_is_repeated_and_a_write_is_not),
		cmocka_unit_test(a_passed_body_of_several_pieces_is_whole),
		cmocka_unit_test(a_server_that_is_not_there_is_unavailable),
		cmocka_unit_test(a_call_ends_by_its_deadline_and_by_its_check),
		cmocka_unit_test(a_list_is_gathered_from_its_pages),
		cmocka_unit_test(a_list_that_expires_between_pages_is_begun_again),
		cmocka_unit_test(a_refused_token_is_read_again_from_its_file),
		cmocka_unit_test(credentials_that_are_missing_are_not_a_missing_object),
		cmocka_unit_test(the_client_keeps_to_its_own_rate),
		cmocka_unit_test(a_call_that_its_rate_leaves_no_time_for_is_not_made),
		cmocka_unit_test(calls_that_are_given_up_use_up_no_rate),
		cmocka_unit_test(an_answer_without_end_is_broken_off),
		cmocka_unit_test(tokens_and_rights_are_asked_for),
		cmocka_unit_test(a_server_with_another_certificate_is_not_spoken_to),
	};

	return cmocka_run_group_tests_name("kube/client", tests, NULL, NULL);
}
