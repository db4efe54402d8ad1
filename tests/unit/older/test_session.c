/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of the manager that need no API server. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/object.h"
#include "older/session/admission.h"
#include "older/session/settings.h"

static json_t *parse(const char *text)
{
	json_t *object = json_loads(text, 0, NULL);

	assert_non_null(object);
	return object;
}

static void settings_come_from_the_config_map(void **state)
{
	static const struct {
		const char *map;
		int code;
		uint64_t expiry_ms;
	} cases[] = {
		{"{}", 0, SESSION_EXPIRY_DEFAULT_MS},
		{"{\"data\":{\"other\":\"x\"}}", 0, SESSION_EXPIRY_DEFAULT_MS},
		{"{\"data\":{\"sessionExpiry\":\"30s\"}}", 0, 30000},
		{"{\"data\":{\"sessionExpiry\":\"1h30m\"}}", 0, 5400000},
		{"{\"data\":{\"sessionExpiry\":\"7d\"}}", 0, SESSION_EXPIRY_MAX_MS},
		{"{\"data\":{\"sessionExpiry\":\"8d\"}}", CAIRN_INVALID, SESSION_EXPIRY_DEFAULT_MS},
		{"{\"data\":{\"sessionExpiry\":\"1ms\"}}", CAIRN_INVALID,
		 SESSION_EXPIRY_DEFAULT_MS},
		{"{\"data\":{\"sessionExpiry\":\"soon\"}}", CAIRN_INVALID,
		 SESSION_EXPIRY_DEFAULT_MS},
		{"{\"data\":{\"sessionExpiry\":\"none\"}}", CAIRN_INVALID,
		 SESSION_EXPIRY_DEFAULT_MS},
	};
	struct session_settings settings;

	(void)state;
	assert_code(session_settings_read(NULL, &settings, NULL), 0);
	assert_int_equal(settings.expiry_ms, SESSION_EXPIRY_DEFAULT_MS);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *map = parse(cases[i].map);

		assert_code(session_settings_read(map, &settings, NULL), cases[i].code);
		assert_int_equal(settings.expiry_ms, cases[i].expiry_ms);
	}
}

static void a_configuration_says_where_its_driver_runs(void **state)
{
	static const struct {
		const char *address;
		const char *annotation; /* NULL: none */
		const char *ns;         /* NULL: it does not say */
	} cases[] = {
		{"cairn.storage:6443", NULL, "storage"},
		{"cairn.storage.svc:6443", NULL, "storage"},
		{"cairn.storage.svc.cluster.local:6443", NULL, "storage"},
		{"cairn:6443", NULL, "manager"},
		{"cairn.example.com:6443", NULL, "manager"},
		{"cairn.storage.svcx:6443", NULL, "manager"},
		{"127.0.0.1:6443", NULL, "manager"},
		{"[::1]:6443", NULL, "manager"},
		{"cairn.:6443", NULL, "manager"},
		{"cairn.Storage:6443", NULL, NULL},
		{"127.0.0.1:6443", "driver-ns", "driver-ns"},
		{"cairn.storage:6443", "other", "other"},
		{"cairn.storage:6443", "Not A Namespace", NULL},
		{"cairn.storage:6443", "-x", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char ns[SESSION_NAMESPACE_MAX + 1];
		kube_auto_json json_t *object =
			json_pack("{s:{s:s, s:{s:s*}}, s:{s:s}}", "metadata", "name", "c",
				  "annotations", "cbt.storage.k8s.io/driver-namespace",
				  cases[i].annotation, "spec", "address", cases[i].address);
		int rc;

		assert_non_null(object);
		rc = session_driver_namespace(object, "manager", ns, NULL);
		if (rc != (cases[i].ns ? 0 : CAIRN_INVALID))
			fail_msg("%s: %d", cases[i].address, rc);
		if (!rc)
			assert_string_equal(ns, cases[i].ns);
	}
}

#define REVIEW(operation, resource, spec)                                                    \
	"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{" \
	"\"uid\":\"u1\",\"namespace\":\"ns\",\"operation\":\"" operation                     \
	"\",\"resource\":{\"group\":\"cbt.storage.k8s.io\",\"version\":\"v1alpha2\","        \
	"\"resource\":\"" resource "\"},\"userInfo\":{\"username\":\"me\"},\"object\":{"     \
	"\"spec\":" spec "}}}"

static void a_review_is_read(void **state)
{
	static const char text[] =
		REVIEW("CREATE", "snapshotsessionrequests", "{\"snapshots\":[\"a\",\"b\"]}");
	struct session_admission admission;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(session_admission_parse(text, strlen(text), &admission, &err), &err);
	assert_string_equal(admission.uid, "u1");
	assert_string_equal(admission.ns, "ns");
	assert_string_equal(kube_str(admission.user, "username"), "me");
	assert_int_equal(admission.n_snapshots, 2);
	assert_string_equal(admission.snapshots[1], "b");
	session_admission_done(&admission);
}

static void other_reviews_are_refused(void **state)
{
	static const char *const cases[] = {
		"",
		"{}",
		"[]",
		"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}",
		REVIEW("UPDATE", "snapshotsessionrequests", "{\"snapshots\":[\"a\"]}"),
		REVIEW("CREATE", "pods", "{\"snapshots\":[\"a\"]}"),
		REVIEW("CREATE", "snapshotsessionrequests", "{}"),
		REVIEW("CREATE", "snapshotsessionrequests", "{\"snapshots\":[]}"),
		REVIEW("CREATE", "snapshotsessionrequests", "{\"snapshots\":\"a\"}"),
		REVIEW("CREATE", "snapshotsessionrequests", "{\"snapshots\":[\"\"]}"),
		REVIEW("CREATE", "snapshotsessionrequests", "{\"snapshots\":[1]}"),
		REVIEW("CREATE", "snapshotsessionrequests", "{\"snapshots\":[\"a\\u0000b\"]}"),
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct session_admission admission;

		if (session_admission_parse(cases[i], strlen(cases[i]), &admission, NULL) !=
		    CAIRN_INVALID)
			fail_msg("taken: %s", cases[i]);
		session_admission_done(&admission);
	}
}

static void answers_are_reviews(void **state)
{
	char *yes = session_admission_answer("u1", true, 0, "");
	char *no = session_admission_answer("u1", false, 403, "because");

	(void)state;
	assert_string_equal(yes, "{\"apiVersion\":\"admission.k8s.io/v1\","
				 "\"kind\":\"AdmissionReview\",\"response\":{\"uid\":\"u1\","
				 "\"allowed\":true}}");
	assert_non_null(strstr(no, "\"allowed\":false"));
	assert_non_null(strstr(no, "\"status\":{\"code\":403,\"message\":\"because\"}"));
	free(yes);
	free(no);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_come_from_the_config_map),
		cmocka_unit_test(a_configuration_says_where_its_driver_runs),
		cmocka_unit_test(a_review_is_read),
		cmocka_unit_test(other_reviews_are_refused),
		cmocka_unit_test(answers_are_reviews),
	};

	return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
