/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kube/global_init.h"
#include "kube/kube_client.h"
#include "kube/kube_resource.h"
#include "kube/kube_status.h"
#include "kube/object.h"
#include "kube/timestamp.h"

static json_t *parse(const char *text)
{
	struct cairn_err err = {0};
	json_t *json = NULL;

	assert_ok(kube_json_parse(text, strlen(text), &json, &err), &err);
	return json;
}

static void absent_is_not_zero(void **state)
{
	kube_auto_json json_t *o =
		parse("{\"a\":{\"zero\":0,\"no\":false,\"empty\":\"\",\"null\":null,"
		      "\"real\":1.0,\"text\":\"x\"}}");
	int64_t n = 7;
	bool b = true;

	(void)state;
	assert_true(kube_i64(o, &n, "a", "zero"));
	assert_int_equal(n, 0);
	assert_true(kube_bool(o, &b, "a", "no"));
	assert_false(b);
	assert_string_equal(kube_str(o, "a", "empty"), "");
	n = 7;
	assert_false(kube_i64(o, &n, "a", "absent"));
	assert_false(kube_i64(o, &n, "a", "null"));
	assert_false(kube_i64(o, &n, "a", "text"));
	assert_false(kube_i64(o, &n, "a", "real"));
	assert_int_equal(n, 7);
	assert_null(kube_str(o, "a", "absent"));
	assert_null(kube_str(o, "a", "zero"));
	assert_null(kube_at(o, "a", "null"));
	assert_null(kube_at(o, "a", "text", "deeper"));
	assert_null(kube_at(NULL, "a"));
	assert_false(kube_is(o, "a", "no"));
}

static void what_nobody_knows_survives_a_change(void **state)
{
	static const char text[] = "{\"kind\":\"X\",\"spec\":{\"big\":9223372036854775807,"
				   "\"odd\":[1,null,{\"x\":\"\\u0000\"}]}}";
	kube_auto_json json_t *o = parse(text);
	cairn_auto_free char *back = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_set(o, &err, json_integer(0), "spec", "replicas"), &err);
	back = kube_json_text(o, NULL);
	assert_string_equal(back, "{\"kind\":\"X\",\"spec\":{\"big\":9223372036854775807,"
				  "\"odd\":[1,null,{\"x\":\"\\u0000\"}],\"replicas\":0}}");
}

static void fields_are_made_on_the_way_and_removed(void **state)
{
	kube_auto_json json_t *o = parse("{\"a\":1,\"n\":null}");
	struct cairn_err err = {0};

	(void)state;
	assert_ok(kube_set(o, &err, json_true(), "x", "y.z/w", "v"), &err);
	assert_true(kube_is(o, "x", "y.z/w", "v"));
	assert_ok(kube_set(o, &err, json_true(), "n", "m"), &err);
	assert_code(kube_set(o, &err, json_true(), "a", "b"), CAIRN_INVALID);
	assert_code(kube_set(o, &err, NULL, "c"), CAIRN_NO_SPACE);
	kube_remove(o, "x", "y.z/w", "v");
	assert_null(kube_at(o, "x", "y.z/w", "v"));
	kube_remove(o, "no", "such", "thing");
}

static void texts_with_nul_are_read_but_are_no_names(void **state)
{
	kube_auto_json json_t *o = parse("{\"metadata\":{\"name\":\"a\\u0000b\"}}");

	(void)state;
	assert_string_equal(kube_name(o), "");
	assert_null(kube_str(o, "metadata", "name"));
}

static void numbers_beyond_64_bits_are_read_as_reals(void **state)
{
	static const struct {
		const char *text;
		double real;
	} cases[] = {
		{"{\"n\":18446744073709552000}", 18446744073709552000.0},
		{"{\"n\":-18446744073709552000}", -18446744073709552000.0},
		{"{\"s\":\"18446744073709552000\",\"n\":18446744073709552000}",
		 18446744073709552000.0},
		{"{\"s\":\"\\\"18446744073709552000\",\"n\":[18446744073709552000,1]}", 0},
		{"{\"n\":18446744073709552000.5}", 18446744073709552000.5},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *o = parse(cases[i].text);
		const json_t *n = kube_at(o, "n");

		if (cases[i].real != 0)
			assert_true(json_real_value(n) == cases[i].real);
		else
			assert_int_equal(json_integer_value(json_array_get(n, 1)), 1);
		if (kube_str(o, "s"))
			assert_non_null(strstr(kube_str(o, "s"), "18446744073709552000"));
	}
}

static void a_field_whose_name_has_a_nul_does_not_hide_the_others(void **state)
{
	kube_auto_json json_t *o =
		parse("[{\"a\\u0000\\\\u0000\" : \"\\u0000\"},{\"metadata\":{\"name\":\"n\"}}]");
	const json_t *odd = json_object_get(json_array_get(o, 0), "a\xef\xbf\xbd\\u0000");

	(void)state;
	assert_int_equal(json_string_length(odd), 1);
	assert_string_equal(kube_name(json_array_get(o, 1)), "n");
}

static void what_is_no_json_is_refused_without_being_quoted(void **state)
{
	static const char *const cases[] = {"", "{", "{\"secret-word\"}", "{} x", "\xff", "[1,]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		json_t *json = NULL;

		assert_code(kube_json_parse(cases[i], strlen(cases[i]), &json, &err),
			    CAIRN_INVALID);
		assert_null(json);
		assert_null(strstr(err.msg, "secret-word"));
	}
}

static void metadata_is_seen(void **state)
{
	kube_auto_json json_t *o =
		parse("{\"kind\":\"K\",\"apiVersion\":\"g/v1\",\"metadata\":{\"name\":\"n\","
		      "\"namespace\":\"s\",\"uid\":\"u\",\"resourceVersion\":\"5\","
		      "\"labels\":{\"a.b/c\":\"1\"},\"annotations\":{\"x\":\"y\"},"
		      "\"finalizers\":[\"f1\",\"f2\"],\"deletionTimestamp\":\"t\"},"
		      "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
	kube_auto_json json_t *reference = kube_reference_to(o);
	char key[KUBE_KEY_MAX], parts[KUBE_KEY_MAX];
	const char *ns, *name;

	(void)state;
	assert_string_equal(kube_label(o, "a.b/c"), "1");
	assert_string_equal(kube_annotation(o, "x"), "y");
	assert_null(kube_label(o, "x"));
	assert_true(kube_has_finalizer(o, "f2"));
	assert_false(kube_has_finalizer(o, "f"));
	assert_true(kube_is_deleted(o));
	assert_string_equal(kube_str(kube_condition(o, "Ready"), "status"), "True");
	assert_null(kube_condition(o, "Other"));
	assert_true(kube_key(o, key));
	assert_string_equal(key, "s/n");
	kube_key_split(key, parts, &ns, &name);
	assert_string_equal(ns, "s");
	assert_string_equal(name, "n");
	kube_key_split("cluster-wide", parts, &ns, &name);
	assert_string_equal(ns, "");
	assert_string_equal(name, "cluster-wide");
	assert_string_equal(kube_str(reference, "resourceVersion"), "5");
	assert_int_equal(json_object_size(reference), 6);
	assert_false(kube_key_of("", "", key));
}

static void paths_are_those_of_the_server(void **state)
{
	static const struct {
		struct kube_ref ref;
		const char *path; /* NULL: refused */
	} cases[] = {
		{{&kube_pods, "ns", "p", NULL}, "/api/v1/namespaces/ns/pods/p"},
		{{&kube_pods, NULL, NULL, NULL}, "/api/v1/pods"},
		{{&kube_nodes, NULL, "n", "status"}, "/api/v1/nodes/n/status"},
		{{&kube_volumesnapshots, "a", NULL, NULL},
		 "/apis/snapshot.storage.k8s.io/v1/namespaces/a/volumesnapshots"},
		{{&kube_pods, "a/b", "../c", NULL}, "/api/v1/namespaces/a%2Fb/pods/..%2Fc"},
		{{&kube_pods, "ns", "\xc3\xa4 ", NULL}, "/api/v1/namespaces/ns/pods/%C3%A4%20"},
		{{&kube_pods, "..", "p", NULL}, NULL},
		{{&kube_pods, "ns", NULL, "status"}, NULL},
		{{&kube_pods, "", "p", NULL}, NULL},
		{{&kube_nodes, "ns", "n", NULL}, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_buf buf = CAIRN_BUF_INIT(1024);
		struct cairn_err err = {0};
		int rc = kube_ref_path(&cases[i].ref, &buf, &err);

		assert_int_equal(rc, cases[i].path ? 0 : CAIRN_INVALID);
		cairn_buf_addc(&buf, '\0');
		if (cases[i].path)
			assert_string_equal((const char *)buf.data, cases[i].path);
		cairn_buf_done(&buf);
	}
}

static void times_are_read_and_written(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns; /* 0: none */
	} cases[] = {
		{"1970-01-01T00:00:01Z", 1000000000},
		{"2026-11-16T03:00:00.123456Z", 1794798000123456000},
		{"2026-11-16T05:00:00.5+02:00", 1794798000500000000},
		{"2026-11-15T22:00:00-05:00", 1794798000000000000},
		{"2024-02-29T00:00:00Z", 1709164800000000000},
		{"2026-11-16 03:00:00Z", 0},
		{"2026-11-16T03:00:00", 0},
		{"2026-13-16T03:00:00Z", 0},
		{"2026-11-16T03:00:00.Z", 0},
		{"2026-11-16T03:00:00Zx", 0},
		{"1969-12-31T23:59:59Z", 0},
		{"", 0},
	};
	char out[KUBE_TIME_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ns = 7;

		assert_int_equal(kube_time_parse(cases[i].text, &ns), cases[i].ns != 0);
		assert_int_equal(ns, cases[i].ns ? cases[i].ns : 7);
	}
	assert_false(kube_time_parse(NULL, NULL));
	assert_string_equal(kube_time(1794798000123456789, out), "2026-11-16T03:00:00Z");
	assert_string_equal(kube_time_micro(1794798000123456789, out),
			    "2026-11-16T03:00:00.123456Z");
}

static void an_answer_that_is_no_status_is_quoted_in_one_line(void **state)
{
	struct kube_status status = {0};
	struct cairn_err err = {0};
	static const char page[] = "<html>\n<b>Bad Gateway</b>\x01</html>\n\n";

	(void)state;
	assert_code(kube_status_fail_body(page, strlen(page), 502, &status, &err),
		    CAIRN_UNAVAILABLE);
	assert_string_equal(err.msg, "HTTP status 502: <html> <b>Bad Gateway</b> </html>");
	assert_code(kube_status_fail_body(NULL, 0, 403, &status, &err), CAIRN_DENIED);
	assert_string_equal(err.msg, "HTTP status 403");
	assert_code(kube_status_fail_body("{\"kind\":\"Status\",\"apiVersion\":\"v1\"}", 35, 507,
					  &status, &err),
		    CAIRN_UNAVAILABLE);
	assert_int_equal(status.http, 507);
}

static void nothing_leaks_or_breaks_without_memory(void **state)
{
	static const char text[] = "{\"a\":[1,2,{\"b\":\"c\"}],\"n\":18446744073709552000}";

	(void)state;
	for (size_t n = 1; n < 200; n++) {
		struct cairn_err err = {0};
		json_t *json = NULL;
		int rc;

		cairn_mem_fail_at(n, 0);
		rc = kube_json_parse(text, sizeof(text) - 1, &json, &err);
		if (!rc) {
			char *back = kube_json_text(json, NULL);

			free(back);
			rc = kube_set(json, &err, json_string("v"), "x", "y", "z");
		}
		cairn_mem_fail_at(0, 0);
		assert_true(rc == 0 || rc == CAIRN_NO_SPACE);
		json_decref(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absent_is_not_zero),
		cmocka_unit_test(what_nobody_knows_survives_a_change),
		cmocka_unit_test(fields_are_made_on_the_way_and_removed),
		cmocka_unit_test(texts_with_nul_are_read_but_are_no_names),
		cmocka_unit_test(numbers_beyond_64_bits_are_read_as_reals),
		cmocka_unit_test(a_field_whose_name_has_a_nul_does_not_hide_the_others),
		cmocka_unit_test(what_is_no_json_is_refused_without_being_quoted),
		cmocka_unit_test(metadata_is_seen),
		cmocka_unit_test(paths_are_those_of_the_server),
		cmocka_unit_test(times_are_read_and_written),
		cmocka_unit_test(an_answer_that_is_no_status_is_quoted_in_one_line),
		cmocka_unit_test(nothing_leaks_or_breaks_without_memory),
	};

	kube_global_init();
	return cmocka_run_group_tests_name("kube/object", tests, NULL, NULL);
}
