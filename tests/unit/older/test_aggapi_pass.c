/* SPDX-License-Identifier: Apache-2.0 */

/* The kinds that are passed on to the version at which they are stored: paths, texts and
 * documents. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kube/digest.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "older/aggapi/discovery.h"
#include "older/aggapi/openapi_rename.h"
#include "older/aggapi/pass_places.h"
#include "older/aggapi/pass_query.h"
#include "older/aggapi/pass_request.h"
#include "older/aggapi/passed_kinds.h"
#include "older/aggapi/path.h"
#include "older/aggapi/status_text.h"
#include "older/aggapi/version_text.h"

#define ROOT  "/apis/cbt.storage.k8s.io/v1alpha1"
#define OLD   "cbt.storage.k8s.io/v1alpha1"
#define NEW   "cbt.storage.k8s.io/v1alpha2"
#define V(it) "{\"apiVersion\":\"" it "\"}"

/* The text with NEW made OLD, pushed in pieces of `step` bytes. */
static char *changed(const char *text, size_t step)
{
	struct cairn_buf out = CAIRN_BUF_INIT(1 << 20);
	struct aggapi_version_text t;
	size_t n = strlen(text);

	aggapi_version_text_init(&t, NEW, OLD);
	for (size_t at = 0; at < n; at += step)
		aggapi_version_text_push(&t, text + at, n - at < step ? n - at : step, &out);
	aggapi_version_text_end(&t, &out);
	return cairn_buf_take_string(&out);
}

static void only_the_versions_of_objects_change(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{V(NEW), V(OLD)},
		{"{ \"apiVersion\" : \"" NEW "\" }\n", "{ \"apiVersion\" : \"" OLD "\" }\n"},
		{"{\"kind\":\"List\",\"apiVersion\":\"" NEW "\",\"items\":[" V(NEW) "," V(NEW) "]}",
		 "{\"kind\":\"List\",\"apiVersion\":\"" OLD
		 "\",\"items\":[" V(OLD) "," V(OLD) "]}"},
		{"{\"type\":\"ADDED\",\"object\":" V(NEW) "}\n{\"type\":\"BOOKMARK\",\"object\":" V(
			 NEW) "}\n",
		 "{\"type\":\"ADDED\",\"object\":" V(OLD) "}\n{\"type\":\"BOOKMARK\",\"object\":" V(
			 OLD) "}\n"},
		{"{\"metadata\":{\"managedFields\":[{\"manager\":\"m\",\"apiVersion\":\"" NEW
		 "\",\"fieldsV1\":" V(NEW) "}]}}",
		 "{\"metadata\":{\"managedFields\":[{\"manager\":\"m\",\"apiVersion\":\"" OLD
		 "\",\"fieldsV1\":" V(NEW) "}]}}"},
		{"{\"kind\":\"Table\",\"rows\":[{\"cells\":[\"" NEW "\"],\"object\":" V(NEW) "}]}",
		 "{\"kind\":\"Table\",\"rows\":[{\"cells\":[\"" NEW "\"],\"object\":" V(OLD) "}]}"},
		{"{\"type\":\"ADDED\",\"object\":{\"rows\":[{\"object\":" V(NEW) "}]}}",
		 "{\"type\":\"ADDED\",\"object\":{\"rows\":[{\"object\":" V(OLD) "}]}}"},
		/* What a user stores passes as it is. */
		{"{\"metadata\":{\"ownerReferences\":[" V(NEW) "]}}",
		 "{\"metadata\":{\"ownerReferences\":[" V(NEW) "]}}"},
		{"{\"spec\":" V(NEW) ",\"apiVersion\":\"" NEW "\"}",
		 "{\"spec\":" V(NEW) ",\"apiVersion\":\"" OLD "\"}"},
		{"{\"metadata\":{\"annotations\":{\"a\":\"{\\\"apiVersion\\\":\\\"" NEW
		 "\\\"}\"}},\"items\":{\"apiVersion\":\"" NEW "\"}}",
		 "{\"metadata\":{\"annotations\":{\"a\":\"{\\\"apiVersion\\\":\\\"" NEW
		 "\\\"}\"}},\"items\":{\"apiVersion\":\"" NEW "\"}}"},
		{"{\"apiVersion\":\"" NEW "0\"}", "{\"apiVersion\":\"" NEW "0\"}"},
		{"{\"apiVersion\":\"v1\",\"kind\":\"Status\"}",
		 "{\"apiVersion\":\"v1\",\"kind\":\"Status\"}"},
		{"{\"kind\":\"apiVersion\",\"name\":\"" NEW "\"}",
		 "{\"kind\":\"apiVersion\",\"name\":\"" NEW "\"}"},
		{"{\"apiVersion\":\"x\\\"" NEW "\"}", "{\"apiVersion\":\"x\\\"" NEW "\"}"},
		{"{\"apiVersion\":\"" NEW, "{\"apiVersion\":\"" NEW},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t step = 1; step < 40; step++) {
			cairn_auto_free char *text = changed(cases[i].in, step);

			assert_non_null(text);
			assert_string_equal(text, cases[i].out);
		}
	}
}

static void a_version_of_any_length_and_depth_is_survived(void **state)
{
	enum { N = 5000 };
	cairn_auto_free char *text = calloc(1, N + 64), *out = NULL;

	(void)state;
	snprintf(text, N, "{\"apiVersion\":\"");
	memset(text + strlen(text), 'v', N);
	out = changed(text, 7);
	assert_string_equal(out, text);
	free(out);
	memset(text, '[', N);
	text[N] = '\0';
	out = changed(text, 100);
	assert_string_equal(out, text);
}

static void the_tree_of_a_request_changes_likewise(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{V(OLD), V(NEW)},
		{"{\"metadata\":{\"managedFields\":[" V(OLD) "],\"ownerReferences\":[" V(OLD) "]}}",
		 "{\"metadata\":{\"managedFields\":[" V(NEW) "],\"ownerReferences\":[" V(
			 OLD) "]}}"},
		{"[{\"op\":\"test\",\"path\":\"/apiVersion\",\"value\":\"" OLD "\"}]",
		 "[{\"op\":\"test\",\"path\":\"/apiVersion\",\"value\":\"" NEW "\"}]"},
		{"[{\"op\":\"add\",\"path\":\"\",\"value\":" V(OLD) "}]",
		 "[{\"op\":\"add\",\"path\":\"\",\"value\":" V(NEW) "}]"},
		{"[{\"op\":\"add\",\"path\":\"/metadata/managedFields/0\",\"value\":" V(OLD) "}]",
		 "[{\"op\":\"add\",\"path\":\"/metadata/managedFields/0\",\"value\":" V(NEW) "}]"},
		{"[{\"op\":\"add\",\"path\":\"/spec/x\",\"value\":\"" OLD "\"}]",
		 "[{\"op\":\"add\",\"path\":\"/spec/x\",\"value\":\"" OLD "\"}]"},
		{"{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"}",
		 "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"}"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kube_auto_json json_t *tree = json_loads(cases[i].in, 0, NULL);
		cairn_auto_free char *text = NULL;

		assert_int_equal(aggapi_version_tree(tree, OLD, NEW), 0);
		text = kube_json_text(tree, NULL);
		assert_string_equal(text, cases[i].out);
	}
}

static void a_path_leads_to_the_kind_that_is_stored(void **state)
{
	struct aggapi_path path;

	(void)state;
	aggapi_path_parse(ROOT "/namespaces/app/snapshotsessionrequests/a/status", &path);
	assert_int_equal(path.what, AGGAPI_PASSED);
	assert_ptr_equal(path.passed, &kube_snapshotsessionrequests);
	assert_string_equal(path.ns, "app");
	assert_string_equal(path.name, "a");
	assert_string_equal(path.subresource, "status");
	aggapi_path_parse(ROOT "/driverdiscoveries", &path);
	assert_ptr_equal(path.passed, &kube_driverdiscoveries);
	assert_string_equal(aggapi_verb(&path, "DELETE", false), "deletecollection");
	aggapi_path_parse(ROOT "/driverdiscoveries/a/scale", &path);
	assert_int_equal(path.what, AGGAPI_UNKNOWN);
	aggapi_path_parse(ROOT "/secrets/a", &path);
	assert_int_equal(path.what, AGGAPI_UNKNOWN);
}

static void only_json_is_accepted(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{NULL, "application/json"},
		{"*/*", "application/json"},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
		 "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"},
		{"application/vnd.kubernetes.protobuf, application/json;q=0.5",
		 "application/json;q=0.5"},
		{"application/vnd.kubernetes.protobuf", NULL},
		{"application/jsonx", NULL},
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cairn_auto_free char *text = aggapi_pass_accept(cases[i].in);

		if (cases[i].out)
			assert_string_equal(text, cases[i].out);
		else
			assert_null(text);
	}
}

static void a_selector_of_one_name_is_that_name(void **state)
{
	char name[AGGAPI_NAME_MAX] = "";

	(void)state;
	assert_true(aggapi_pass_selected("watch=1&fieldSelector=metadata.name%3Da.b", name,
					 sizeof(name)));
	assert_string_equal(name, "a.b");
	assert_true(aggapi_pass_selected("fieldSelector=metadata.name==c", name, sizeof(name)));
	assert_string_equal(name, "c");
	assert_false(aggapi_pass_selected("fieldSelector=metadata.name%3Da,metadata.namespace%3Db",
					  name, sizeof(name)));
	assert_false(aggapi_pass_selected("fieldSelector=metadata.name!%3Da", name, sizeof(name)));
	assert_false(aggapi_pass_selected("watch=1", name, sizeof(name)));
}

static void a_watch_is_what_kubernetes_takes_for_one(void **state)
{
	static const char *const watches[] = {
		"watch=true",         "watch=1",  "watch", "watch=", "watch=yes", "a=b&watch=TRUE",
		"watch=truetruetrue", "watch=%zz"};
	static const char *const lists[] = {
		"", "watch=false", "watch=0", "watch=False", "watch=%66alse", "watches=1"};

	(void)state;
	for (size_t i = 0; i < sizeof(watches) / sizeof(watches[0]); i++)
		assert_true(aggapi_query_watch(watches[i]));
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		assert_false(aggapi_query_watch(lists[i]));
}

/* Go decodes names, and drops pairs with ';' or a broken escape: the second pair would be the
 * first for the API server, or the other way round. */
static void a_query_that_can_be_read_in_two_ways_is_refused(void **state)
{
	static const char *const bad[] = {
		"%66ieldSelector=&fieldSelector=metadata.name%3Dmine",
		"fieldSelector=metadata.name%3Dmine&fieldSelector=",
		"w%61tch=true",
		"watch=false;&watch=true",
		"watch=false&watch=true",
		"watch=%zz",
		"a;watch=true",
		"limit=%0",
		"limit=%",
		"watch=%00",
		"wat+ch=1",
	};
	static const char *const good[] = {
		"",
		"&&",
		"watch=true&fieldSelector=metadata.name%3Da&resourceVersion=0&limit=500",
		"labelSelector=a%3Db%2Cc+in+(d,e)&dryRun=All&dryRun=All",
		"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEi%3D%3D",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(aggapi_query_plain(bad[i]));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(aggapi_query_plain(good[i]));
}

static void a_refusal_names_the_version_of_the_request(void **state)
{
	static const char in[] =
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"message\":\"X in version "
		"\\\"v1alpha2\\\" cannot be handled: (" NEW ") v1alpha2\"}";
	static const char out[] =
		"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"message\":\"X in version "
		"\\\"v1alpha1\\\" cannot be handled: (" OLD ") v1alpha2\"}";
	struct cairn_buf made = CAIRN_BUF_INIT(1024);

	(void)state;
	for (size_t n = 0; n < sizeof(in) - 1; n++) { /* any part of it */
		cairn_buf_reset(&made);
		aggapi_status_text(in, n, NEW, OLD, &made);
		assert_int_equal(made.len, n);
	}
	cairn_buf_reset(&made);
	aggapi_status_text(in, sizeof(in) - 1, NEW, OLD, &made);
	assert_int_equal(made.len, sizeof(out) - 1);
	assert_memory_equal(made.data, out, made.len);
	cairn_buf_done(&made);
}

static void a_watch_lasts_no_longer_than_allowed(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: refused */
	} cases[] = {
		{"watch=1", "watch=1&timeoutSeconds=600"},
		{"watch=1&timeoutSeconds=5", "watch=1&timeoutSeconds=5"},
		{"timeoutSeconds=601&watch=1", "watch=1&timeoutSeconds=600"},
		{"timeoutSeconds=0&watch=1", "watch=1&timeoutSeconds=600"},
		{"watch=1&timeoutSeconds=99999999999999999999", NULL},
		{"watch=1&timeoutSeconds=-1", NULL},
		{"watch=1&timeoutSeconds=%2B700", NULL},
		{"watch=1&timeoutSeconds", NULL},
		{"timeoutSecondsX=9&watch=1", "timeoutSecondsX=9&watch=1&timeoutSeconds=600"},
	};

	(void)state;
	assert_false(aggapi_query_plain("timeoutSeconds=1&timeoutSeconds=9999"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cairn_buf out = CAIRN_BUF_INIT(256);
		bool good = aggapi_query_add_limited(cases[i].in, 600, &out);
		cairn_auto_free char *text = cairn_buf_take_string(&out);

		assert_int_equal(good, cases[i].out != NULL);
		if (good)
			assert_string_equal(text, cases[i].out);
	}
}

static void an_apply_is_bound_to_the_object_that_exists(void **state)
{
	static const struct {
		const char *in, *uid; /* NULL: refused */
	} cases[] = {
		{"{}", "u1"},
		{"{\"metadata\":{\"name\":\"a\"}}", "u1"},
		{"{\"metadata\":{\"uid\":\"\"}}", "u1"},
		{"{\"metadata\":{\"uid\":null}}", "u1"},
		{"{\"metadata\":{\"uid\":7}}", "u1"},
		{"{\"metadata\":{\"uid\":\"u2\"}}", "u2"},
		{"{\"metadata\":[]}", NULL},
		{"[]", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kube_auto_json json_t *tree = json_loads(cases[i].in, 0, NULL);
		int rc = aggapi_pass_bind(tree, "u1");

		assert_int_equal(rc < 0, cases[i].uid == NULL);
		if (cases[i].uid)
			assert_string_equal(kube_str(tree, "metadata", "uid"), cases[i].uid);
	}
}

static void one_user_cannot_take_all_places(void **state)
{
	const struct kube_digest one = {.bytes = {1}}, other = {.bytes = {2}};
	struct aggapi_places places;

	(void)state;
	aggapi_places_init(&places);
	for (int watch = 0; watch < 2; watch++) {
		unsigned taken = 0;

		while (taken < 1000 && aggapi_places_take(&places, watch, &one))
			taken++;
		assert_true(taken <= (watch ? AGGAPI_WATCHES_MAX : AGGAPI_PASSES_MAX) / 4);
		assert_true(aggapi_places_take(&places, watch, &other));
		aggapi_places_leave(&places, watch, &one);
		assert_true(aggapi_places_take(&places, watch, &one));
	}
	aggapi_places_done(&places);
}

static void discovery_names_the_kinds_that_are_installed(void **state)
{
	kube_auto_json json_t *passed = json_loads(
		"[{\"name\":\"driverdiscoveries\",\"singularName\":\"driverdiscovery\","
		"\"namespaced\":false,\"kind\":\"DriverDiscovery\",\"verbs\":[\"get\",\"list\"]},"
		"{\"name\":\"driverdiscoveries/status\",\"singularName\":\"\",\"namespaced\":false,"
		"\"kind\":\"DriverDiscovery\",\"verbs\":[\"get\"]}]",
		0, NULL);
	kube_auto_json json_t *list = aggapi_discovery_resources(passed);
	kube_auto_json json_t *groups = aggapi_discovery_groups(passed, "v2");
	const json_t *versions, *resources, *second;

	(void)state;
	assert_int_equal(json_array_size(kube_at(list, "resources")), 3);
	versions = json_array_get(
		kube_at(json_array_get(json_object_get(groups, "items"), 0), "versions"), 0);
	resources = kube_at(versions, "resources");
	assert_int_equal(json_array_size(resources), 2);
	second = json_array_get(resources, 1);
	assert_string_equal(kube_str(second, "resource"), "driverdiscoveries");
	assert_string_equal(kube_str(second, "scope"), "Cluster");
	assert_string_equal(kube_str(second, "responseKind", "version"), "v1alpha1");
	assert_string_equal(
		kube_str(json_array_get(kube_at(second, "subresources"), 0), "subresource"),
		"status");
}

static bool wanted(const char *plural, const char *version)
{
	return strcmp(version, "v1beta1") == 0 && aggapi_passed_kind(plural);
}

static void openapi_gets_the_names_of_this_version(void **state)
{
	kube_auto_json json_t *document = json_loads(
		"{\"paths\":{\"/apis/cbt.storage.k8s.io/v1beta1/snapshotmetadataservices\":{"
		"\"get\":{\"operationId\":\"listCbtStorageV1beta1S\",\"g\":{\"group\":"
		"\"cbt.storage.k8s.io\",\"kind\":\"S\",\"version\":\"v1beta1\"},\"ref\":"
		"\"#/components/schemas/io.k8s.storage.cbt.v1beta1.S\"}},"
		"\"/apis/cbt.storage.k8s.io/v1beta1/others\":{}},"
		"\"components\":{\"schemas\":{\"io.k8s.storage.cbt.v1beta1.S\":{},"
		"\"DeleteOptions\":{\"group\":\"apps\",\"version\":\"v1beta1\"}}}}",
		0, NULL);
	kube_auto_json json_t *into =
		json_pack("{s:{}, s:{s:{}}}", "paths", "components", "schemas");
	const json_t *get;

	(void)state;
	assert_int_equal(aggapi_openapi_rename(document, "v1beta1", wanted, into, NULL), 0);
	assert_int_equal(json_object_size(kube_at(into, "paths")), 1);
	get = kube_at(into, "paths", ROOT "/snapshotmetadataservices", "get");
	assert_string_equal(kube_str(get, "operationId"), "listCbtStorageV1alpha1S");
	assert_string_equal(kube_str(get, "g", "version"), "v1alpha1");
	assert_string_equal(kube_str(get, "ref"),
			    "#/components/schemas/io.k8s.storage.cbt.v1alpha1.S");
	assert_non_null(kube_at(into, "components", "schemas", "io.k8s.storage.cbt.v1alpha1.S"));
	assert_string_equal(kube_str(into, "components", "schemas", "DeleteOptions", "version"),
			    "v1beta1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_versions_of_objects_change),
		cmocka_unit_test(a_version_of_any_length_and_depth_is_survived),
		cmocka_unit_test(the_tree_of_a_request_changes_likewise),
		cmocka_unit_test(a_path_leads_to_the_kind_that_is_stored),
		cmocka_unit_test(only_json_is_accepted),
		cmocka_unit_test(a_selector_of_one_name_is_that_name),
		cmocka_unit_test(a_watch_is_what_kubernetes_takes_for_one),
		cmocka_unit_test(a_query_that_can_be_read_in_two_ways_is_refused),
		cmocka_unit_test(a_refusal_names_the_version_of_the_request),
		cmocka_unit_test(a_watch_lasts_no_longer_than_allowed),
		cmocka_unit_test(an_apply_is_bound_to_the_object_that_exists),
		cmocka_unit_test(one_user_cannot_take_all_places),
		cmocka_unit_test(discovery_names_the_kinds_that_are_installed),
		cmocka_unit_test(openapi_gets_the_names_of_this_version),
	};

	return cmocka_run_group_tests_name("aggapi_pass", tests, NULL, NULL);
}
