/* SPDX-License-Identifier: Apache-2.0 */

/* An informer against a scripted HTTPS server: what breaks, and what handlers are called with. */

#include "cairntest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/watch.h"
#include "kube_fixture.h"
#include "net/http/http_server.h"

#define PATIENCE_MS 120000

/* What the server does: a list, then a watch, for as often as they are asked. */
struct act {
	int status;       /* of the answer; 0 is 200 */
	const char *text; /* a list, or the lines of a watch */
	bool hold;        /* the watch stays open after its lines */
	bool cut;         /* it breaks off after them */
};

struct script {
	const struct act *lists, *watches;
	size_t n_lists, n_watches;
	atomic_uint list_at, watch_at;
};

static int play(struct scripted_server *server, struct net_http *http, unsigned n,
		const struct scripted_request *request)
{
	struct script *script = server->arg;
	bool watch = strstr(request->query, "watch=true") != NULL;
	unsigned at = atomic_fetch_add(watch ? &script->watch_at : &script->list_at, 1);
	size_t last = (watch ? script->n_watches : script->n_lists) - 1;
	const struct act *act = (watch ? script->watches : script->lists) + (at < last ? at : last);

	(void)n;
	if (act->status)
		return scripted_status(http, act->status, "Expired", "no", NULL);
	if (!watch)
		return scripted_reply(http, 200, NULL, act->text);
	if (net_http_begin(http, 200, "application/json", NULL) < 0 ||
	    (act->text && net_http_write(http, act->text, strlen(act->text), NULL) < 0))
		return CAIRN_CANCELLED;
	while (act->hold && net_http_check(http) == 0)
		cairn_sleep_ms(5);
	return act->cut ? CAIRN_INTERNAL : 0;
}

#define ITEM(name, version)                                          \
	"{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" name "\"," \
	"\"namespace\":\"s\",\"resourceVersion\":\"" version "\","   \
	"\"managedFields\":[1]}}"
#define LIST(version, items) \
	"{\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items "]}"
#define EVENT(type, name, version) "{\"type\":\"" type "\",\"object\":" ITEM(name, version) "}\n"

/* The calls of a handler, as one line of words. */
struct heard {
	pthread_mutex_t lock;
	char text[4096];
};

static void hear(void *arg, const json_t *old, const json_t *now)
{
	struct heard *heard = arg;
	size_t n;

	cairn_scoped_lock(&heard->lock);
	n = strlen(heard->text);
	snprintf(heard->text + n, sizeof(heard->text) - n, "%s%s%s ",
		 old == now ? "="
		 : !old     ? "+"
		 : !now     ? "-"
			    : "*",
		 kube_name(now ? now : old), kube_resource_version(now ? now : old));
}

static void wait_for(struct heard *heard, const char *text)
{
	for (int i = 0; i < PATIENCE_MS / 5; i++) {
		pthread_mutex_lock(&heard->lock);
		bool there = strstr(heard->text, text) != NULL;
		pthread_mutex_unlock(&heard->lock);
		if (there)
			return;
		cairn_sleep_ms(5);
	}
	fail_msg("'%s' is not in '%s'", text, heard->text);
}

struct world {
	struct scripted_server server;
	struct kube_client *client;
	struct kube_informer *informer;
	struct heard heard;
};

static void begin(struct world *w, struct script *script, uint64_t resync_ms)
{
	const struct kube_informer_options options = {.resource = &kube_configmaps,
						      .resync_ms = resync_ms};
	struct cairn_err err = {0};

	memset(&w->heard, 0, sizeof(w->heard));
	pthread_mutex_init(&w->heard.lock, NULL);
	scripted_start(&w->server, play, script);
	w->client = scripted_client(&w->server, "token: t", NULL);
	assert_ok(kube_informer_new(w->client, &options, &w->informer, &err), &err);
	assert_ok(kube_informer_add_handler(w->informer, hear, &w->heard, &err), &err);
	assert_ok(kube_informer_start(w->informer, &err), &err);
}

static void finish(struct world *w)
{
	kube_informer_free(w->informer);
	kube_client_free(w->client);
	scripted_stop(&w->server);
}

#define SCRIPT(l, w)                                                                             \
	{                                                                                        \
		.lists = (l), .n_lists = ARRAY_LEN(l), .watches = (w), .n_watches = ARRAY_LEN(w) \
	}

static void the_list_is_told_and_then_what_happens(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1") "," ITEM("b", "2"))}};
	static const struct act watches[] = {
		{.text = EVENT("MODIFIED", "a", "6") EVENT("ADDED", "c", "7")
			 EVENT("DELETED", "b", "8") EVENT("BOOKMARK", "", "9"),
		 .hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct cairn_err err = {0};
	struct kube_informer_stats stats;
	struct world w;
	json_t *a;

	(void)state;
	begin(&w, &script, 0);
	assert_ok(kube_informer_wait_synced(w.informer, PATIENCE_MS, NULL, NULL, &err), &err);
	wait_for(&w.heard, "-b8 ");
	assert_string_equal(w.heard.text, "+a1 +b2 *a6 +c7 -b8 ");
	assert_null(kube_informer_get(w.informer, "s", "b"));
	a = kube_informer_get(w.informer, "s", "a");
	assert_string_equal(kube_resource_version(a), "6");
	assert_string_equal(kube_str(a, "kind"), "ConfigMap");
	assert_null(kube_at(a, "metadata", "managedFields"));
	json_decref(a);
	kube_informer_stats(w.informer, &stats);
	assert_int_equal(stats.objects, 2);
	assert_int_equal(stats.errors, 0);
	assert_non_null(strstr(w.server.seen[1].query, "resourceVersion=5"));
	assert_non_null(strstr(w.server.seen[1].query, "allowWatchBookmarks=true"));
	finish(&w);
}

static void a_watch_that_ends_goes_on_from_the_last_version(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {
		{.text = EVENT("MODIFIED", "a", "6") EVENT("BOOKMARK", "", "20")},
		{.text = EVENT("MODIFIED", "a", "21"), .cut = true},
		{.text = EVENT("MODIFIED", "a", "22"), .hold = true},
	};
	struct script script = SCRIPT(lists, watches);
	struct world w;

	(void)state;
	begin(&w, &script, 0);
	wait_for(&w.heard, "*a22 ");
	assert_string_equal(w.heard.text, "+a1 *a6 *a21 *a22 ");
	assert_non_null(strstr(w.server.seen[2].query, "resourceVersion=20"));
	assert_non_null(strstr(w.server.seen[3].query, "resourceVersion=21"));
	assert_int_equal(atomic_load(&script.list_at), 1);
	finish(&w);
}

static void a_version_that_is_gone_makes_a_new_list_whose_difference_is_told(void **state)
{
	static const char gone[] =
		"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\","
		"\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}}\n";
	static const struct act lists[] = {
		{.text = LIST("5", ITEM("a", "1") "," ITEM("b", "2") "," ITEM("c", "3"))},
		{.text = LIST("50", ITEM("a", "1") "," ITEM("b", "40") "," ITEM("d", "41"))},
		{.text = LIST("60", ITEM("d", "41"))},
	};
	static const struct act watches[] = {
		{.text = gone},
		{.status = 410},
		{.hold = true},
	};
	struct script script = SCRIPT(lists, watches);
	struct world w;

	(void)state;
	begin(&w, &script, 0);
	wait_for(&w.heard, "-b40 ");
	assert_string_equal(w.heard.text, "+a1 +b2 +c3 *b40 +d41 -c3 -a1 -b40 ");
	finish(&w);
}

static void an_object_made_anew_is_told_as_two_things(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {
		{.text = "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\","
			 "\"namespace\":\"s\",\"uid\":\"other\",\"resourceVersion\":\"9\"}}}\n",
		 .hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct world w;

	(void)state;
	begin(&w, &script, 0);
	wait_for(&w.heard, "+a9 ");
	assert_string_equal(w.heard.text, "+a1 -a1 +a9 ");
	finish(&w);
}

static void a_server_that_talks_nonsense_is_asked_again(void **state)
{
	static const struct act lists[] = {{.text = "{\"items\":7}"},
					   {.text = "nonsense"},
					   {.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {{.text = "nonsense\n"},
					     {.text = EVENT("MODIFIED", "a", "6") "{\"type"},
					     {.text = EVENT("MODIFIED", "a", "7"), .hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct kube_informer_stats stats;
	struct world w;

	(void)state;
	begin(&w, &script, 0);
	assert_code(kube_informer_wait_synced(w.informer, 1, NULL, NULL, NULL), CAIRN_DEADLINE);
	wait_for(&w.heard, "*a7 ");
	assert_string_equal(w.heard.text, "+a1 *a6 *a7 ");
	kube_informer_stats(w.informer, &stats);
	assert_int_equal(stats.errors, 4);
	finish(&w);
}

static void a_late_handler_is_told_of_all_there_is(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {{.hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct heard late = {.text = ""};
	struct cairn_err err = {0};
	struct world w;

	(void)state;
	pthread_mutex_init(&late.lock, NULL);
	begin(&w, &script, 0);
	assert_ok(kube_informer_wait_synced(w.informer, PATIENCE_MS, NULL, NULL, &err), &err);
	assert_ok(kube_informer_add_handler(w.informer, hear, &late, &err), &err);
	assert_string_equal(late.text, "+a1 ");
	finish(&w);
}

static void everything_is_told_again_now_and_then(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {{.hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct world w;

	(void)state;
	begin(&w, &script, 20);
	wait_for(&w.heard, "+a1 =a1 =a1 ");
	finish(&w);
}

static void a_stopped_informer_can_still_be_read(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {{.hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct cairn_err err = {0};
	json_t **objects;
	struct world w;
	size_t n;

	(void)state;
	begin(&w, &script, 0);
	assert_ok(kube_informer_wait_synced(w.informer, PATIENCE_MS, NULL, NULL, &err), &err);
	kube_informer_stop(w.informer);
	assert_ok(kube_informer_list(w.informer, &objects, &n, &err), &err);
	assert_int_equal(n, 1);
	kube_objects_free(objects, n);
	finish(&w);
}

static void wait_until_current(struct kube_informer *informer, bool current)
{
	for (int i = 0; i < PATIENCE_MS / 5; i++) {
		if (kube_informer_current(informer) == current)
			return;
		cairn_sleep_ms(5);
	}
	fail_msg("the informer is %scurrent", current ? "not " : "");
}

static void an_informer_whose_watch_broke_is_not_current(void **state)
{
	static const struct act lists[] = {{.text = LIST("5", ITEM("a", "1"))}};
	static const struct act watches[] = {{.text = EVENT("MODIFIED", "a", "6") "{\"type\""},
					     {.status = 503},
					     {.status = 503},
					     {.status = 503},
					     {.text = EVENT("MODIFIED", "a", "7"), .hold = true}};
	struct script script = SCRIPT(lists, watches);
	struct world w;

	(void)state;
	begin(&w, &script, 0);
	wait_for(&w.heard, "*a6 ");
	wait_until_current(w.informer, false);
	wait_for(&w.heard, "*a7 ");
	wait_until_current(w.informer, true);
	finish(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_list_is_told_and_then_what_happens),
		cmocka_unit_test(a_watch_that_ends_goes_on_from_the_last_version),
		cmocka_unit_test(a_version_that_is_gone_makes_a_new_list_whose_difference_is_told),
		cmocka_unit_test(an_object_made_anew_is_told_as_two_things),
		cmocka_unit_test(a_server_that_talks_nonsense_is_asked_again),
		cmocka_unit_test(a_late_handler_is_told_of_all_there_is),
		cmocka_unit_test(everything_is_told_again_now_and_then),
		cmocka_unit_test(a_stopped_informer_can_still_be_read),
		cmocka_unit_test(an_informer_whose_watch_broke_is_not_current),
	};

	return cmocka_run_group_tests_name("kube/informer", tests, NULL, NULL);
}
