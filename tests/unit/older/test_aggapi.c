/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of the aggregated API server that need no network. */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/object.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/aggapi_wire.h"
#include "older/aggapi/delta_pages.h"
#include "older/aggapi/document.h"
#include "older/aggapi/path.h"
#include "older/aggapi/rates.h"
#include "older/aggapi/trust.h"

#define VERSION "/apis/cbt.storage.k8s.io/v1alpha1"

static void a_path_says_what_is_asked_for(void **state)
{
	static const struct {
		const char *path;
		enum aggapi_what what;
		const char *ns, *name;
	} cases[] = {
		{"/apis", AGGAPI_GROUPS, "", ""},
		{"/apis/cbt.storage.k8s.io", AGGAPI_GROUP_INFO, "", ""},
		{VERSION, AGGAPI_RESOURCES, "", ""},
		{VERSION "/namespaces/app/volumesnapshotdeltas", AGGAPI_DELTAS, "app", ""},
		{VERSION "/namespaces/app/volumesnapshotdeltas/d.1", AGGAPI_DELTA, "app", "d.1"},
		{VERSION "/volumesnapshotdeltas", AGGAPI_DELTAS_OF_ALL, "", ""},
		{"/openapi/v2", AGGAPI_OPENAPI_V2, "", ""},
		{"/openapi/v3", AGGAPI_OPENAPI_V3, "", ""},
		{"/openapi/v3" VERSION, AGGAPI_OPENAPI_V3_GROUP, "", ""},
		{"/", AGGAPI_UNKNOWN, "", ""},
		{"/apis/other.io/v1", AGGAPI_UNKNOWN, "", ""},
		{VERSION "x", AGGAPI_UNKNOWN, "", ""},
		{VERSION "/namespaces//volumesnapshotdeltas", AGGAPI_UNKNOWN, "", ""},
		{VERSION "/namespaces/../volumesnapshotdeltas", AGGAPI_UNKNOWN, "", ""},
		{VERSION "/namespaces/app/volumesnapshotdeltas/", AGGAPI_UNKNOWN, "", ""},
		{VERSION "/namespaces/app/volumesnapshotdeltas/a/status", AGGAPI_UNKNOWN, "", ""},
		{VERSION "/namespaces/App/volumesnapshotdeltas", AGGAPI_UNKNOWN, "", ""},
		{VERSION "/namespaces/app/secrets", AGGAPI_UNKNOWN, "", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct aggapi_path path;

		aggapi_path_parse(cases[i].path, &path);
		assert_int_equal(path.what, cases[i].what);
		assert_string_equal(path.ns, cases[i].ns);
		assert_string_equal(path.name, cases[i].name);
	}
}

static void a_method_becomes_the_verb_that_is_authorized(void **state)
{
	struct aggapi_path all = {.what = AGGAPI_DELTAS}, one = {.what = AGGAPI_DELTA, .name = "d"};

	(void)state;
	assert_string_equal(aggapi_verb(&all, "POST", false), "create");
	assert_string_equal(aggapi_verb(&all, "GET", false), "list");
	assert_string_equal(aggapi_verb(&all, "GET", true), "watch");
	assert_string_equal(aggapi_verb(&one, "GET", false), "get");
	assert_string_equal(aggapi_verb(&one, "GET", true), "get");
	assert_string_equal(aggapi_verb(&one, "DELETE", false), "delete");
	assert_string_equal(aggapi_verb(&all, "DELETE", false), "deletecollection");
	assert_null(aggapi_verb(&all, "BREW", false));
}

#define HEAD                                               \
	"{\"apiVersion\":\"cbt.storage.k8s.io/v1alpha1\"," \
	"\"kind\":\"VolumeSnapshotDelta\",\"metadata\":{\"name\":\"d\"}"

static int parse(const char *body, enum aggapi_validation validation, struct aggapi_delta *ret,
		 struct aggapi_refusal *refusal)
{
	cairn_auto_buf struct cairn_buf warnings = CAIRN_BUF_INIT(4096);

	*refusal = (struct aggapi_refusal){0};
	return aggapi_delta_parse(body, strlen(body), "app", validation, 256, ret, &warnings,
				  refusal);
}

static void a_good_request_is_understood(void **state)
{
	struct aggapi_refusal refusal;
	struct aggapi_delta delta;

	(void)state;
	assert_int_equal(parse(HEAD ",\"spec\":{\"baseVolumeSnapshotName\":\"a\","
				    "\"targetVolumeSnapshotName\":\"b\",\"mode\":\"block\","
				    "\"limit\":7,\"offset\":9,"
				    "\"volumeSnapshotDeltaSecretRef\":{\"name\":\"s\"}}}",
			       AGGAPI_STRICT, &delta, &refusal),
			 0);
	assert_string_equal(delta.base, "a");
	assert_string_equal(delta.target, "b");
	assert_int_equal(delta.limit, 7);
	assert_int_equal(delta.offset, 9);
	assert_string_equal(delta.secret, "s");
	assert_string_equal(delta.secret_ns, "app");
	assert_string_equal(kube_namespace(delta.object), "app");
	aggapi_delta_done(&delta);
}

static void a_limit_that_is_absent_or_too_large_is_the_servers(void **state)
{
	static const char *const limits[] = {"",
					     ",\"limit\":0",
					     ",\"limit\":100000",
					     ",\"limit\":9223372036854775807",
					     ",\"limit\":9223372036854775808",
					     ",\"limit\":18446744073709551615"};

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct aggapi_refusal refusal;
		struct aggapi_delta delta;
		char body[512];

		snprintf(body, sizeof(body),
			 HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\"%s}}", limits[i]);
		assert_int_equal(parse(body, AGGAPI_STRICT, &delta, &refusal), 0);
		assert_int_equal(delta.limit, 256);
		assert_true(i < 2 ? delta.asked == 256 : delta.asked >= 100000);
		aggapi_delta_done(&delta);
	}
}

static void the_status_has_the_limit_of_the_request(void **state)
{
	kube_auto_json json_t *page = json_loads("{\"changedBlocks\":[]}", 0, NULL);
	struct aggapi_refusal refusal;
	struct aggapi_delta delta;
	int64_t limit = 0, effective = 0, next = 0;

	(void)state;
	assert_int_equal(parse(HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"mode\":"
				    "\"Block\",\"limit\":1000,\"offset\":5}}",
			       AGGAPI_STRICT, &delta, &refusal),
			 0);
	assert_int_equal(aggapi_delta_complete(&delta, page, NULL), 0);
	assert_true(kube_i64(delta.object, &limit, "status", "limit"));
	assert_true(kube_i64(delta.object, &effective, "status", "effectiveLimit"));
	assert_true(kube_i64(delta.object, &next, "status", "continue"));
	assert_int_equal(limit, 1000);
	assert_int_equal(effective, 256);
	assert_int_equal(next, 5);
	aggapi_delta_done(&delta);
}

static void a_cause_does_not_repeat_its_field(void **state)
{
	struct aggapi_refusal refusal;
	kube_auto_json json_t *status = NULL;
	const json_t *cause;

	(void)state;
	aggapi_refuse_field(&refusal, "spec.limit", "FieldValueInvalid", "spec.limit: too odd");
	status = aggapi_status_object(&refusal);
	cause = json_array_get(kube_at(status, "details", "causes"), 0);
	assert_string_equal(kube_str(cause, "message"), "too odd");
	assert_string_equal(kube_str(status, "message"), "spec.limit: too odd");
}

static void a_wrong_request_is_refused_with_its_field(void **state)
{
	static const struct {
		const char *body;
		int http;
		const char *field;
	} cases[] = {
		{"", 400, ""},
		{"[]", 400, ""},
		{"{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}", 400, ""},
		{HEAD "}", 422, "spec"},
		{HEAD ",\"spec\":{}}", 422, "spec.targetVolumeSnapshotName"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"B/x\"}}", 422,
		 "spec.targetVolumeSnapshotName"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":5}}", 422,
		 "spec.targetVolumeSnapshotName"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"limit\":-1}}", 422,
		 "spec.limit"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"offset\":\"7\"}}", 422,
		 "spec.offset"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"offset\":1.5}}", 422,
		 "spec.offset"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"mode\":\"file\"}}", 422,
		 "spec.mode"},
		{HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\","
		      "\"volumeSnapshotDeltaSecretRef\":{}}}",
		 422, "spec.volumeSnapshotDeltaSecretRef.name"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct aggapi_refusal refusal;
		struct aggapi_delta delta;

		assert_true(parse(cases[i].body, AGGAPI_WARN, &delta, &refusal) < 0);
		assert_int_equal(refusal.http, cases[i].http);
		assert_string_equal(refusal.field, cases[i].field);
	}
}

static void an_unknown_field_is_refused_only_when_strict(void **state)
{
	static const char body[] =
		HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"lmit\":1}}";
	cairn_auto_buf struct cairn_buf warnings = CAIRN_BUF_INIT(4096);
	struct aggapi_refusal refusal = {0};
	struct aggapi_delta delta;

	(void)state;
	assert_true(parse(body, AGGAPI_STRICT, &delta, &refusal) < 0);
	assert_int_equal(refusal.http, 400);
	assert_non_null(strstr(refusal.message, "unknown field \"spec.lmit\""));
	assert_int_equal(aggapi_delta_parse(body, strlen(body), "app", AGGAPI_WARN, 256, &delta,
					    &warnings, &refusal),
			 0);
	assert_memory_equal(warnings.data, "unknown field \"spec.lmit\"\n", warnings.len);
	aggapi_delta_done(&delta);
}

static void a_page_becomes_the_status(void **state)
{
	kube_auto_json json_t *page = json_loads(
		"{\"volumeSizeBytes\":8192,\"nextToken\":\"3\",\"changedBlocks\":[{\"offset\":0,"
		"\"blockSizeBytes\":4096,\"token\":{\"token\":\"t\",\"issuanceTime\":\"2026-01-01T00:"
		"00:00Z\",\"ttlSeconds\":10800}}]}",
		0, NULL);
	struct aggapi_refusal refusal;
	struct aggapi_delta delta;
	const json_t *first;
	int64_t next = 0;

	(void)state;
	assert_int_equal(parse(HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\"}}",
			       AGGAPI_STRICT, &delta, &refusal),
			 0);
	assert_int_equal(aggapi_delta_complete(&delta, page, NULL), 0);
	assert_string_equal(kube_str(delta.object, "status", "state"), "Continue");
	assert_true(kube_i64(delta.object, &next, "status", "continue"));
	assert_int_equal(next, 3);
	first = json_array_get(kube_at(delta.object, "status", "changedBlockDeltas"), 0);
	assert_string_equal(kube_str(first, "dataToken", "ttl"), "3h0m0s");
	json_object_del(page, "nextToken");
	assert_int_equal(aggapi_delta_complete(&delta, page, NULL), 0);
	assert_string_equal(kube_str(delta.object, "status", "state"), "Completed");
	assert_true(kube_i64(delta.object, &next, "status", "continue"));
	assert_int_equal(next, 1);
	assert_int_equal(aggapi_delta_fail(&delta, "broken", NULL), 0);
	assert_string_equal(kube_str(delta.object, "status", "state"), "Failed");
	aggapi_delta_done(&delta);
}

static void a_page_that_does_not_lead_on_is_a_failure(void **state)
{
	static const char *const tokens[] = {"7", "6", "0"};
	struct aggapi_refusal refusal;
	struct aggapi_delta delta;

	(void)state;
	assert_int_equal(parse(HEAD ",\"spec\":{\"targetVolumeSnapshotName\":\"b\",\"mode\":null,"
				    "\"offset\":7}}",
			       AGGAPI_STRICT, &delta, &refusal),
			 0);
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		kube_auto_json json_t *page =
			json_pack("{s:[], s:s}", "changedBlocks", "nextToken", tokens[i]);

		assert_int_equal(aggapi_delta_complete(&delta, page, NULL), CAIRN_INTERNAL);
	}
	assert_null(kube_at(delta.object, "status"));
	aggapi_delta_done(&delta);
}

static void an_answer_that_is_none_is_not_believed(void **state)
{
#define B(offset, size) "{\"offset\":" offset ",\"blockSizeBytes\":" size "}"
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{"{\"changedBlocks\":[]}", true},
		{"{\"changedBlocks\":[" B("0", "4096") "," B("1", "4096") "]}", true},
		{"{\"changedBlocks\":[" B("1", "4096") "," B("0", "4096") "]}", false},
		{"{\"changedBlocks\":[" B("1", "4096") "," B("1", "4096") "]}", false},
		{"{\"changedBlocks\":[" B("0", "0") "]}", false},
		{"{\"changedBlocks\":[" B("-1", "4096") "]}", false},
		{"{\"changedBlocks\":[" B("9223372036854775807", "4096") "]}", false},
		{"{\"changedBlocks\":[" B("0", "1") "," B("1", "1") "," B("2", "1") "]}", false},
		{"{\"changedBlocks\":[{\"offset\":0,\"blockSizeBytes\":1,\"token\":{}}]}", false},
		{"{}", false},
		{"{\"changedBlocks\":{}}", false},
		{"{\"changedBlocks\":[],\"nextToken\":7}", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kube_auto_json json_t *answer = json_loads(cases[i].text, 0, NULL);

		assert_non_null(answer);
		assert_int_equal(aggapi_answer_check(answer, 2, NULL),
				 cases[i].good ? 0 : CAIRN_INTERNAL);
	}
}

static void a_question_survives_the_way(void **state)
{
	kube_auto_json json_t *secrets = json_pack("{s:s}", "k", "v");
	struct aggapi_question asked = {.from = "a",
					.to = "b",
					.secrets = secrets,
					.max_entries = 5,
					.starting_token = "17",
					.holder = {.user = "ann", .ns = "n", .target = "t"}},
			       got;
	kube_auto_json json_t *object = aggapi_question_object(&asked);

	(void)state;
	assert_int_equal(aggapi_question_read(object, &got, NULL), 0);
	assert_string_equal(got.from, "a");
	assert_string_equal(got.to, "b");
	assert_int_equal(got.max_entries, 5);
	assert_string_equal(got.starting_token, "17");
	assert_true(json_equal(got.secrets, secrets));
	assert_string_equal(got.holder.user, "ann");
	assert_string_equal(got.holder.ns, "n");
	assert_string_equal(got.holder.target, "t");
	assert_null(got.holder.base);
	json_object_set_new(object, "maxEntries", json_integer(-1));
	assert_int_equal(aggapi_question_read(object, &got, NULL), CAIRN_INVALID);
	json_object_del(object, "maxEntries");
	json_object_set_new(object, "secrets", json_pack("{s:i}", "k", 1));
	assert_int_equal(aggapi_question_read(object, &got, NULL), CAIRN_INVALID);
}

static void a_data_token_says_what_it_is_for(void **state)
{
	static const char *const bad[] = {"",           "tok",         "tok.n",    "tok.n:t",
					  "tok.:t:",    "tok.n::",     "tok.N:t:", "tok.n:t:b:c",
					  "tok.n:t/x:", "tok.n:t:../y"};
	struct data_holder ann = {.user = "ann", .ns = "n", .target = "t.1", .base = "b"};
	cairn_auto_free char *text = data_holder_token(&ann, "tok");
	cairn_auto_free char *signed_text = data_holder_text(&ann);
	struct data_holder got;
	const char *driver_token;

	(void)state;
	assert_string_equal(text, "tok.n:t.1:b");
	assert_string_equal(signed_text, "n\nt.1\nb\nann");
	assert_code(data_holder_split(text, &driver_token, &got, NULL), 0);
	assert_string_equal(driver_token, "tok");
	assert_string_equal(got.ns, "n");
	assert_string_equal(got.target, "t.1");
	assert_string_equal(got.base, "b");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char *copy = strdup(bad[i]);

		assert_non_null(copy);
		if (data_holder_split(copy, &driver_token, &got, NULL) != CAIRN_UNAUTHENTICATED)
			fail_msg("taken: %s", bad[i]);
		free(copy);
	}
}

static void a_question_is_asked_for_somebody(void **state)
{
	static const struct data_holder bad[] = {
		{.ns = "n", .target = "t"},
		{.user = "", .ns = "n", .target = "t"},
		{.user = "a", .target = "t"},
		{.user = "a", .ns = "n"},
		{.user = "a", .ns = "n", .target = "t\nx"},
		{.user = "a", .ns = "n", .target = "t", .base = "B"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_code(data_holder_check(&bad[i], NULL), CAIRN_INVALID);
}

/* --- callers --- */

struct field {
	const char *name, *value;
};

static bool field_at(const void *request, size_t i, const char **ret_name, const char **ret_value)
{
	const struct field *fields = request;

	for (size_t k = 0; k <= i; k++)
		if (!fields[k].name)
			return false;
	*ret_name = fields[i].name;
	*ret_value = fields[i].value;
	return true;
}

static struct aggapi_proxy_rules rules_of(const char *names)
{
	kube_auto_json json_t *configmap =
		json_pack("{s:{s:s, s:s, s:s, s:s, s:s}}", "data", "requestheader-client-ca-file",
			  "-----BEGIN CERTIFICATE-----\n", "requestheader-allowed-names", names,
			  "requestheader-username-headers", "[\"X-Remote-User\"]",
			  "requestheader-group-headers", "[\"X-Remote-Group\"]",
			  "requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]");
	struct aggapi_proxy_rules rules;

	assert_int_equal(aggapi_proxy_rules_read(configmap, &rules, NULL), 0);
	return rules;
}

static void the_front_proxy_says_who_asks(void **state)
{
	static const struct field fields[] = {{"host", "x"},
					      {"x-remote-user", "ann"},
					      {"x-remote-group", "dev"},
					      {"x-remote-group", "system:authenticated"},
					      {"x-remote-extra-scopes%2fall", "a"},
					      {"x-remote-extra-scopes%2fall", "b"},
					      {NULL, NULL}};
	struct aggapi_proxy_rules rules = rules_of("[\"front-proxy-client\"]");
	kube_auto_json json_t *user = NULL;

	(void)state;
	assert_int_equal(
		aggapi_proxy_user(&rules, "front-proxy-client", field_at, fields, &user, NULL), 0);
	assert_string_equal(kube_str(user, "username"), "ann");
	assert_int_equal(json_array_size(kube_at(user, "groups")), 2);
	assert_int_equal(json_array_size(kube_at(user, "extra", "scopes/all")), 2);
	aggapi_proxy_rules_done(&rules);
}

static void who_has_no_group_is_authenticated_all_the_same(void **state)
{
	static const struct field known[] = {{"x-remote-user", "system:aggregator"}, {NULL, NULL}};
	static const struct field nobody[] = {{"x-remote-user", "system:anonymous"},
					      {"x-remote-group", "system:unauthenticated"},
					      {NULL, NULL}};
	struct aggapi_proxy_rules rules = rules_of("[]");
	kube_auto_json json_t *user = NULL, *other = NULL;

	(void)state;
	assert_int_equal(aggapi_proxy_user(&rules, "proxy", field_at, known, &user, NULL), 0);
	assert_string_equal(json_string_value(json_array_get(kube_at(user, "groups"), 0)),
			    "system:authenticated");
	assert_int_equal(aggapi_proxy_user(&rules, "proxy", field_at, nobody, &other, NULL), 0);
	assert_int_equal(json_array_size(kube_at(other, "groups")), 1);
	aggapi_proxy_rules_done(&rules);
}

static void headers_without_the_proxys_certificate_count_for_nothing(void **state)
{
	static const struct field forged[] = {
		{"x-remote-user", "admin"}, {"x-remote-group", "system:masters"}, {NULL, NULL}};
	static const struct field nobody[] = {{"host", "x"}, {NULL, NULL}};
	struct aggapi_proxy_rules rules = rules_of("[\"front-proxy-client\"]");
	json_t *user = NULL;

	(void)state;
	assert_int_equal(aggapi_proxy_user(&rules, NULL, field_at, forged, &user, NULL),
			 CAIRN_UNAUTHENTICATED);
	assert_int_equal(aggapi_proxy_user(&rules, "somebody", field_at, forged, &user, NULL),
			 CAIRN_UNAUTHENTICATED);
	assert_int_equal(
		aggapi_proxy_user(&rules, "front-proxy-client", field_at, nobody, &user, NULL),
		CAIRN_UNAUTHENTICATED);
	assert_null(user);
	aggapi_proxy_rules_done(&rules);
}

/* --- the rest --- */

static void the_document_has_the_form_that_is_asked_for(void **state)
{
	static const struct {
		const char *accept, *type;
	} cases[] = {
		{NULL, "application/json"},
		{"application/json", "application/json"},
		{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
		 "application/json",
		 "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
		{"application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io",
		 "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"},
		{"application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList",
		 "application/json"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kube_auto_json json_t *object = NULL;
		struct aggapi_document document;

		assert_int_equal(aggapi_document(AGGAPI_GROUPS, cases[i].accept, NULL, NULL,
						 &document, NULL),
				 1);
		assert_string_equal(document.type, cases[i].type);
		object = json_loadb(document.data, document.len, 0, NULL);
		assert_non_null(object);
		aggapi_document_done(&document);
	}
}

/* XXH3 without a seed multiplies the first eight bytes, masked with the beginning
 * of its public secret, by the next eight: names that begin with the secret
 * collide, whatever follows. */
static void names_cannot_be_made_to_share_a_rate(void **state)
{
	static const char one[] = "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe"
				  "somebody0123456789abcdef";
	static const char two[] = "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe"
				  "attacker0123456789abcdef";
	cairn_cleanup(aggapi_rates_freep) struct aggapi_rates *rates = NULL;
	uint64_t now = CAIRN_NS_PER_SEC, wait_s = 0;

	(void)state;
	assert_int_equal(aggapi_rates_new(1, 1, &rates, NULL), 0);
	assert_true(aggapi_rates_take(rates, one, now, &wait_s));
	assert_true(aggapi_rates_take(rates, two, now, &wait_s));
	assert_false(aggapi_rates_take(rates, one, now, &wait_s));
}

static void a_user_who_asks_too_often_must_wait(void **state)
{
	cairn_cleanup(aggapi_rates_freep) struct aggapi_rates *rates = NULL;
	uint64_t now = CAIRN_NS_PER_SEC, wait_s = 0;

	(void)state;
	assert_int_equal(aggapi_rates_new(1, 2, &rates, NULL), 0);
	assert_true(aggapi_rates_take(rates, "ann", now, &wait_s));
	assert_true(aggapi_rates_take(rates, "ann", now, &wait_s));
	assert_false(aggapi_rates_take(rates, "ann", now, &wait_s));
	assert_in_range(wait_s, 1, 2);
	assert_true(aggapi_rates_take(rates, "bob", now, &wait_s));
	assert_true(aggapi_rates_take(rates, "ann", now + CAIRN_NS_PER_SEC, &wait_s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_says_what_is_asked_for),
		cmocka_unit_test(a_method_becomes_the_verb_that_is_authorized),
		cmocka_unit_test(a_good_request_is_understood),
		cmocka_unit_test(a_limit_that_is_absent_or_too_large_is_the_servers),
		cmocka_unit_test(the_status_has_the_limit_of_the_request),
		cmocka_unit_test(a_cause_does_not_repeat_its_field),
		cmocka_unit_test(a_wrong_request_is_refused_with_its_field),
		cmocka_unit_test(an_unknown_field_is_refused_only_when_strict),
		cmocka_unit_test(a_page_becomes_the_status),
		cmocka_unit_test(a_page_that_does_not_lead_on_is_a_failure),
		cmocka_unit_test(an_answer_that_is_none_is_not_believed),
		cmocka_unit_test(a_question_survives_the_way),
		cmocka_unit_test(a_data_token_says_what_it_is_for),
		cmocka_unit_test(a_question_is_asked_for_somebody),
		cmocka_unit_test(the_front_proxy_says_who_asks),
		cmocka_unit_test(who_has_no_group_is_authenticated_all_the_same),
		cmocka_unit_test(headers_without_the_proxys_certificate_count_for_nothing),
		cmocka_unit_test(the_document_has_the_form_that_is_asked_for),
		cmocka_unit_test(a_user_who_asks_too_often_must_wait),
		cmocka_unit_test(names_cannot_be_made_to_share_a_rate),
	};

	return cmocka_run_group_tests_name("aggapi", tests, NULL, NULL);
}
