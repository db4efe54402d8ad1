/* SPDX-License-Identifier: Apache-2.0 */

/* The Kubernetes client, driven by a test: a JSON object a line on standard
 * input says what to do, one on standard output what came of it. The client
 * lives as long as the program, so connections, informers and leases do too.
 *
 *   kube-client-tool [KUBECONFIG [QPS]]     without one: as kubectl finds it
 *
 *   {"do":"get","of":{"group":"","version":"v1","plural":"pods","kind":"Pod",
 *    "namespaced":true},"ns":"default","name":"p"}
 */
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/num.h"
#include "kube/auth.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/lease.h"
#include "kube/object.h"
#include "kube/watch.h"

#define THREADS_MAX 64
#define WATCHES_MAX 512

struct tool {
	struct kube_client *client;
	struct kube_informer *informer;
	struct kube_resource informed;
	json_t *informed_words; /* whose texts it borrows */
	struct kube_watch *watches[WATCHES_MAX];
	size_t n_watches;
	struct kube_leader *leader;
	struct kube_recorder *recorder;

	pthread_mutex_t lock;
	json_t *told; /* what handlers believe there is: key: resource version */
	unsigned odd; /* events that contradict earlier ones */
	unsigned changes;
};

struct doing {
	struct tool *tool;
	const json_t *words;
	struct kube_resource resource;
	struct kube_ref ref;
	struct kube_call how;
	struct kube_status status;
	struct cairn_err err;
	json_t *answer; /* or NULL */
};

static uint64_t number(const json_t *words, const char *name, uint64_t otherwise)
{
	int64_t value;

	return kube_i64(words, &value, name) ? (uint64_t)value : otherwise;
}

static struct kube_resource resource_of(const json_t *of)
{
	return (struct kube_resource){
		.group = kube_str(of, "group") ? kube_str(of, "group") : "",
		.version = kube_str(of, "version") ? kube_str(of, "version") : "v1",
		.plural = kube_str(of, "plural"),
		.kind = kube_str(of, "kind"),
		.namespaced = kube_is(of, "namespaced"),
	};
}

static struct kube_list_query query_of(const json_t *words)
{
	return (struct kube_list_query){
		.label_selector = kube_str(words, "labels"),
		.field_selector = kube_str(words, "fields"),
		.resource_version = kube_str(words, "version"),
		.resource_version_match = kube_str(words, "match"),
		.limit = number(words, "limit", 0),
		.continue_token = kube_str(words, "continue"),
	};
}

static int do_get(struct doing *doing)
{
	return kube_get(doing->tool->client, &doing->ref, &doing->how, &doing->answer, &doing->err);
}

static int do_list(struct doing *doing)
{
	struct kube_list_query query = query_of(doing->words);

	return kube_list(doing->tool->client, &doing->ref, &query, &doing->how, &doing->answer,
			 &doing->err);
}

static int do_page(struct doing *doing)
{
	struct kube_list_query query = query_of(doing->words);

	return kube_list_page(doing->tool->client, &doing->ref, &query, &doing->how, &doing->answer,
			      &doing->err);
}

static int do_create(struct doing *doing)
{
	return kube_create(doing->tool->client, &doing->ref, kube_at(doing->words, "object"),
			   &doing->how, &doing->answer, &doing->err);
}

static int do_update(struct doing *doing)
{
	return kube_update(doing->tool->client, &doing->ref, kube_at(doing->words, "object"),
			   &doing->how, &doing->answer, &doing->err);
}

static int do_patch(struct doing *doing)
{
	static const char *const kinds[] = {"merge", "json", "strategic", "apply"};
	const char *kind = kube_str(doing->words, "kind");

	for (unsigned i = 0; kind && i < 4; i++)
		if (strcmp(kind, kinds[i]) == 0)
			return kube_patch(doing->tool->client, &doing->ref, (enum kube_patch_kind)i,
					  kube_at(doing->words, "object"), &doing->how,
					  &doing->answer, &doing->err);
	return cairn_err_set(&doing->err, CAIRN_INVALID, "no kind of patch");
}

static int do_apply(struct doing *doing)
{
	return kube_apply(doing->tool->client, &doing->ref, kube_at(doing->words, "object"),
			  kube_is(doing->words, "force"), &doing->how, &doing->answer, &doing->err);
}

static int do_delete(struct doing *doing)
{
	const struct kube_delete_options options = {
		.uid = kube_str(doing->words, "uid"),
		.resource_version = kube_str(doing->words, "version"),
		.propagation = kube_str(doing->words, "propagation"),
	};

	return kube_delete(doing->tool->client, &doing->ref, &options, &doing->how, &doing->answer,
			   &doing->err);
}

static int do_delete_all(struct doing *doing)
{
	struct kube_list_query query = query_of(doing->words);

	return kube_delete_collection(doing->tool->client, &doing->ref, &query, &doing->how,
				      &doing->err);
}

static int count_up(json_t *object, void *arg, struct cairn_err *err)
{
	const char *text = kube_str(object, "data", "count");
	uint64_t value = 0;
	char next[24];

	(void)arg;
	if (text && cairn_parse_u64(text, &value, err) < 0)
		return err->code;
	snprintf(next, sizeof(next), "%llu", (unsigned long long)value + 1);
	return kube_set(object, err, json_string(next), "data", "count") < 0 ? err->code : 1;
}

static int do_count_up(struct doing *doing)
{
	return kube_modify(doing->tool->client, &doing->ref, count_up, NULL, &doing->how,
			   &doing->answer, &doing->err);
}

/* Reads the object from several threads at once. */
struct crowd {
	struct doing *doing;
	atomic_uint left, failed;
};

static void *read_many(void *arg)
{
	struct crowd *crowd = arg;

	while (atomic_fetch_sub(&crowd->left, 1) - 1 < UINT32_MAX / 2)
		if (kube_get(crowd->doing->tool->client, &crowd->doing->ref, NULL, NULL, NULL) < 0)
			atomic_fetch_add(&crowd->failed, 1);
	return NULL;
}

static int do_crowd(struct doing *doing)
{
	struct crowd crowd = {.doing = doing};
	pthread_t threads[THREADS_MAX];
	uint64_t n = number(doing->words, "threads", 8);

	atomic_init(&crowd.left, (unsigned)number(doing->words, "n", 100));
	for (uint64_t i = 0; i < n && i < THREADS_MAX; i++)
		pthread_create(&threads[i], NULL, read_many, &crowd);
	for (uint64_t i = 0; i < n && i < THREADS_MAX; i++)
		pthread_join(threads[i], NULL);
	doing->answer = json_pack("{s:I}", "failed", (json_int_t)atomic_load(&crowd.failed));
	return 0;
}

static int do_watch(struct doing *doing)
{
	cairn_cleanup(kube_watch_freep) struct kube_watch *watch = NULL;
	const struct kube_watch_options options = {
		.resource_version = kube_str(doing->words, "version"),
		.field_selector = kube_str(doing->words, "fields"),
		.bookmarks = kube_is(doing->words, "bookmarks"),
		.timeout_s = number(doing->words, "seconds", 0),
	};
	uint64_t n = number(doing->words, "n", UINT64_MAX);
	uint64_t wait_ms = number(doing->words, "wait", UINT64_MAX);
	json_t *events = json_array();
	int rc = kube_watch_open(doing->tool->client, &doing->ref, &options, &doing->how, &watch,
				 &doing->err);

	doing->answer = json_pack("{s:o, s:b}", "events", events, "opened", rc == 0);
	while (rc == 0 && json_array_size(events) < n) {
		struct kube_watch_event event;

		rc = kube_watch_next(watch, wait_ms, &event, &doing->err);
		if (rc <= 0)
			return rc;
		json_array_append_new(events,
				      json_pack("[s, s, s]", kube_watch_event_type_name(event.type),
						kube_name(event.object),
						kube_resource_version(event.object)));
		kube_watch_event_done(&event);
		rc = 0;
	}
	return rc;
}

/* Watches that stay open until the end. */
static int do_watches(struct doing *doing)
{
	const struct kube_watch_options options = {.resource_version =
							   kube_str(doing->words, "version")};
	struct tool *tool = doing->tool;
	uint64_t n = number(doing->words, "n", 1);
	int rc = 0;

	while (rc == 0 && n-- > 0 && tool->n_watches < WATCHES_MAX) {
		rc = kube_watch_open(tool->client, &doing->ref, &options, &doing->how,
				     &tool->watches[tool->n_watches], &doing->err);
		tool->n_watches += rc == 0;
	}
	return rc;
}

/* One event from each of them. */
static int do_watched(struct doing *doing)
{
	struct tool *tool = doing->tool;
	int rc = 1;

	for (size_t i = 0; rc == 1 && i < tool->n_watches; i++) {
		struct kube_watch_event event = {.object = NULL};

		rc = kube_watch_next(tool->watches[i], 30000, &event, &doing->err);
		kube_watch_event_done(&event);
	}
	return rc == 1 ? 0 : cairn_err_negative(rc);
}

/* What a controller would believe, and whether events came in order. */
static void hear(void *arg, const json_t *old, const json_t *now)
{
	struct tool *tool = arg;
	char key[KUBE_KEY_MAX];
	bool known;

	kube_key(now ? now : old, key);
	cairn_scoped_lock(&tool->lock);
	known = json_object_get(tool->told, key) != NULL;
	if (known != (old != NULL))
		tool->odd++;
	tool->changes++;
	if (now)
		json_object_set_new(tool->told, key, json_string(kube_resource_version(now)));
	else
		json_object_del(tool->told, key);
}

static void by_label(const json_t *object, void (*emit)(void *to, const char *text), void *to)
{
	const char *color = kube_label(object, "color");

	if (color)
		emit(to, color);
}

static int do_informer(struct doing *doing)
{
	static const struct kube_index indexes[] = {{.name = "color", .texts = by_label},
						    {.name = NULL}};
	struct tool *tool = doing->tool;
	struct kube_informer_options options = {.resource = &tool->informed,
						.ns = kube_str(doing->words, "ns"),
						.label_selector = kube_str(doing->words, "labels"),
						.indexes = indexes};
	int rc;

	tool->informed_words = json_deep_copy(doing->words);
	tool->informed = resource_of(kube_at(tool->informed_words, "of"));
	rc = kube_informer_new(tool->client, &options, &tool->informer, &doing->err);
	if (!rc)
		rc = kube_informer_add_handler(tool->informer, hear, tool, &doing->err);
	if (!rc)
		rc = kube_informer_start(tool->informer, &doing->err);
	if (!rc)
		rc = kube_informer_wait_synced(tool->informer, number(doing->words, "wait", 30000),
					       NULL, NULL, &doing->err);
	return rc;
}

static json_t *versions(json_t **objects, size_t n)
{
	json_t *all = json_object();

	for (size_t i = 0; i < n; i++) {
		char key[KUBE_KEY_MAX];

		kube_key(objects[i], key);
		json_object_set_new(all, key, json_string(kube_resource_version(objects[i])));
	}
	return all;
}

static int do_informed(struct doing *doing)
{
	struct tool *tool = doing->tool;
	const char *color = kube_str(doing->words, "color");
	struct kube_informer_stats stats;
	json_t **objects;
	size_t n;
	int rc = color ? kube_informer_find(tool->informer, "color", color, &objects, &n,
					    &doing->err)
		       : kube_informer_list(tool->informer, &objects, &n, &doing->err);

	if (rc)
		return rc;
	kube_informer_stats(tool->informer, &stats);
	cairn_scoped_lock(&tool->lock);
	doing->answer = json_pack("{s:o, s:o, s:i, s:i, s:I, s:I, s:I, s:I, s:s}", "objects",
				  versions(objects, n), "told", json_deep_copy(tool->told), "odd",
				  (int)tool->odd, "changes", (int)tool->changes, "lists",
				  (json_int_t)stats.lists, "watches", (json_int_t)stats.watches,
				  "errors", (json_int_t)stats.errors, "events",
				  (json_int_t)stats.events, "last_error", stats.last_error);
	kube_objects_free(objects, n);
	return 0;
}

/* How long the stop takes. */
static int do_uninform(struct doing *doing)
{
	uint64_t began = cairn_monotonic_ns();

	kube_informer_stop(doing->tool->informer);
	doing->answer = json_pack("{s:I}", "ms",
				  (json_int_t)((cairn_monotonic_ns() - began) / CAIRN_NS_PER_MS));
	return 0;
}

static int do_lead(struct doing *doing)
{
	const struct kube_leader_options options = {
		.ns = kube_str(doing->words, "ns"),
		.name = kube_str(doing->words, "name"),
		.identity = kube_str(doing->words, "identity"),
		.duration_ms = number(doing->words, "duration", 0),
		.renew_ms = number(doing->words, "renew", 0),
		.retry_ms = number(doing->words, "retry", 0),
	};

	return kube_leader_new(doing->tool->client, &options, &doing->tool->leader, &doing->err);
}

static int do_leads(struct doing *doing)
{
	char holder[KUBE_LEADER_NAME_MAX];
	uint64_t wait_ms = number(doing->words, "wait", 0);
	int rc = 0;

	if (wait_ms)
		rc = kube_leader_wait(doing->tool->leader, wait_ms, NULL, NULL, &doing->err);
	kube_leader_holder(doing->tool->leader, holder);
	doing->answer = json_pack("{s:b, s:s}", "leads", kube_leader_leads(doing->tool->leader),
				  "holder", holder);
	return rc;
}

static int do_unlead(struct doing *doing)
{
	kube_leader_free(doing->tool->leader);
	doing->tool->leader = NULL;
	return 0;
}

static int do_tell(struct doing *doing)
{
	struct tool *tool = doing->tool;
	uint64_t n = number(doing->words, "n", 1);
	int rc = 0;

	if (!tool->recorder)
		rc = kube_recorder_new(tool->client, "cairn.dev/test", "tool", &tool->recorder,
				       &doing->err);
	for (uint64_t i = 0; rc == 0 && i < n; i++)
		kube_event_tell(tool->recorder, kube_at(doing->words, "object"),
				kube_is(doing->words, "warning"), kube_str(doing->words, "reason"),
				"Test", "%s", kube_str(doing->words, "note"));
	return rc;
}

static int do_told(struct doing *doing)
{
	struct kube_recorder_stats stats = {0};

	if (doing->tool->recorder)
		kube_recorder_stats(doing->tool->recorder, &stats);
	if (kube_is(doing->words, "end")) {
		kube_recorder_free(doing->tool->recorder);
		doing->tool->recorder = NULL;
	}
	doing->answer =
		json_pack("{s:I, s:I, s:I}", "written", (json_int_t)stats.written, "dropped",
			  (json_int_t)stats.dropped, "failed", (json_int_t)stats.failed);
	return 0;
}

static int do_token(struct doing *doing)
{
	const char *audiences[] = {kube_str(doing->words, "audience"), NULL};
	const struct kube_token_request request = {
		.ns = kube_str(doing->words, "ns"),
		.service_account = kube_str(doing->words, "name"),
		.audiences = audiences,
		.expiry_s = number(doing->words, "seconds", 0),
	};
	struct kube_token token;
	int rc =
		kube_token_request(doing->tool->client, &request, &doing->how, &token, &doing->err);

	if (rc)
		return rc;
	doing->answer = json_pack("{s:s, s:I}", "token", token.token, "expires",
				  (json_int_t)(token.expires_ns / CAIRN_NS_PER_SEC));
	kube_token_done(&token);
	return 0;
}

static int do_review(struct doing *doing)
{
	const char *audience = kube_str(doing->words, "audience");
	const char *audiences[] = {audience, NULL};
	struct kube_token_review review;
	int rc = kube_token_review(doing->tool->client, kube_str(doing->words, "token"), audiences,
				   &doing->how, &review, &doing->err);

	if (rc)
		return rc;
	doing->answer =
		json_pack("{s:b, s:O*, s:b, s:s*}", "authenticated", review.authenticated, "user",
			  review.user, "has", audience && kube_token_review_has(&review, audience),
			  "error", review.error);
	kube_token_review_done(&review);
	return 0;
}

static int do_access(struct doing *doing)
{
	const json_t *words = doing->words;
	const struct kube_access what = {
		.verb = kube_str(words, "verb"),
		.group = kube_str(words, "group"),
		.resource = kube_str(words, "resource"),
		.ns = kube_str(words, "ns"),
		.name = kube_str(words, "name"),
		.path = kube_str(words, "path"),
	};
	struct kube_access_answer answer;
	int rc = kube_access_review(doing->tool->client, kube_at(words, "user"), &what, &doing->how,
				    &answer, &doing->err);

	if (rc)
		return rc;
	doing->answer = json_pack("{s:b, s:b, s:s}", "allowed", answer.allowed, "denied",
				  answer.denied, "reason", answer.reason);
	return 0;
}

static int do_whoami(struct doing *doing)
{
	return kube_whoami(doing->tool->client, &doing->how, &doing->answer, &doing->err);
}

static int do_raw(struct doing *doing)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = kube_get_raw(doing->tool->client, kube_str(doing->words, "path"), &doing->how,
			      &text, &n, &doing->err);

	if (!rc)
		doing->answer = json_stringn(text, n);
	return rc;
}

static int do_stats(struct doing *doing)
{
	struct kube_client_stats stats;

	kube_client_stats(doing->tool->client, &stats);
	doing->answer =
		json_pack("{s:I, s:I, s:I, s:I}", "requests", (json_int_t)stats.requests, "retries",
			  (json_int_t)stats.retries, "connections", (json_int_t)stats.connections,
			  "limited_ms", (json_int_t)(stats.limited_ns / CAIRN_NS_PER_MS));
	return 0;
}

static const struct {
	const char *name;
	int (*act)(struct doing *doing);
} acts[] = {
	{"get", do_get},           {"list", do_list},         {"page", do_page},
	{"create", do_create},     {"update", do_update},     {"patch", do_patch},
	{"apply", do_apply},       {"delete", do_delete},     {"delete_all", do_delete_all},
	{"count_up", do_count_up}, {"crowd", do_crowd},       {"watch", do_watch},
	{"informer", do_informer}, {"informed", do_informed}, {"uninform", do_uninform},
	{"lead", do_lead},         {"leads", do_leads},       {"unlead", do_unlead},
	{"tell", do_tell},         {"told", do_told},         {"token", do_token},
	{"review", do_review},     {"access", do_access},     {"whoami", do_whoami},
	{"watches", do_watches},   {"watched", do_watched},   {"raw", do_raw},
	{"stats", do_stats},
};

static void act(struct doing *doing)
{
	const char *name = kube_str(doing->words, "do");
	int rc = cairn_err_set(&doing->err, CAIRN_INVALID, "unknown");
	kube_auto_json json_t *reply = NULL;

	for (size_t i = 0; name && i < sizeof(acts) / sizeof(acts[0]); i++)
		if (strcmp(name, acts[i].name) == 0)
			rc = acts[i].act(doing);
	reply = json_pack("{s:b, s:o*}", "ok", rc == 0, "answer", doing->answer);
	if (rc != 0)
		json_object_update_new(reply, json_pack("{s:s, s:s, s:i, s:s}", "code",
							cairn_code_name(rc), "text", doing->err.msg,
							"http", doing->status.http, "reason",
							doing->status.reason));
	json_dumpf(reply, stdout, JSON_COMPACT);
	fputc('\n', stdout);
	fflush(stdout);
}

static int serve(struct tool *tool)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, stdin)) > 0) {
		kube_auto_json json_t *words = NULL;
		struct doing doing = {.tool = tool};

		if (kube_json_parse(line, (size_t)n, &words, &doing.err) < 0) {
			fprintf(stderr, "%s\n", doing.err.msg);
			free(line);
			return 1;
		}
		doing.words = words;
		doing.resource = resource_of(kube_at(words, "of"));
		doing.ref = (struct kube_ref){.resource = &doing.resource,
					      .ns = kube_str(words, "ns"),
					      .name = kube_str(words, "name"),
					      .subresource = kube_str(words, "sub")};
		doing.how = (struct kube_call){.timeout_ms = number(words, "timeout", 0),
					       .field_manager = kube_str(words, "manager"),
					       .field_validation = kube_str(words, "validation"),
					       .dry_run = kube_is(words, "dry"),
					       .once = kube_is(words, "once"),
					       .status = &doing.status};
		act(&doing);
	}
	free(line);
	return 0;
}

int main(int argc, char **argv)
{
	struct kube_config_options where = {.kubeconfig = argc > 1 ? argv[1] : NULL,
					    .pod_dir = getenv("POD_DIR")};
	struct kube_client_options options = {
		.user_agent = "kube-client-tool", .qps = -1, .http1 = getenv("HTTP1") != NULL};
	struct tool tool = {.told = json_object()};
	struct kube_config *config = NULL;
	struct cairn_err err = {0};
	uint64_t qps;
	int rc;

	pthread_mutex_init(&tool.lock, NULL);
	if (argc > 2 && cairn_parse_u64(argv[2], &qps, &err) == 0) {
		options.qps = (double)qps;
		options.burst = 1;
	}
	if (kube_config_load(&where, &config, &err) < 0 ||
	    kube_client_new(config, &options, &tool.client, &err) < 0) {
		printf("{\"ok\":false,\"code\":\"%s\",\"text\":\"%s\"}\n",
		       cairn_code_name(err.code), err.msg);
		return 1;
	}
	kube_config_free(config);
	rc = serve(&tool);
	kube_informer_free(tool.informer);
	json_decref(tool.informed_words);
	for (size_t i = 0; i < tool.n_watches; i++)
		kube_watch_free(tool.watches[i]);
	kube_leader_free(tool.leader);
	kube_recorder_free(tool.recorder);
	kube_client_free(tool.client);
	json_decref(tool.told);
	return rc;
}
