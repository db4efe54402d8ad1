/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of diffsnap that need neither a driver nor an API server. */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "older/diffsnap/answer.h"
#include "older/diffsnap/diffsnap_resource.h"
#include "older/diffsnap/query.h"

static void paths_say_what_is_wanted(void **state)
{
	static const struct {
		const char *path, *query;
		const char *ns, *name, *base, *target, *start;
		uint64_t max;
		bool direct;
	} cases[] = {
		{"/a/b", "", "a", "b", "", "", "", 0, false},
		{"/a/b", "startOffset=4096&maxEntries=7", "a", "b", "", "", "4096", 7, false},
		{"/a/b", "NextOffset=8192&MAXENTRIES=3", "a", "b", "", "", "8192", 3, false},
		{"/a/b", "nextoffset=9&", "a", "b", "", "", "9", 0, false},
		{"/a/b", "&StartOffset=9", "a", "b", "", "", "9", 0, false},
		{"/a/b", "maxEntries=18446744073709551615", "a", "b", "", "", "", UINT64_MAX,
		 false},
		{"/namespaces/x", "", "namespaces", "x", "", "", "", 0, false},
		{"/namespaces/a/diff", "target=t", "a", "", "", "t", "", 0, true},
		{"/namespaces/a/diff", "base=b.1&target=t-2", "a", "", "b.1", "t-2", "", 0, true},
		{"/namespaces/a/diff", "BaseVolumeSnapshotName=b&targetvolumesnapshotname=t", "a",
		 "", "b", "t", "", 0, true},
		{"/namespaces/a/diff", "target=t&startOffset=a%2Fb", "a", "", "", "t", "a/b", 0,
		 true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct diffsnap_query query;
		struct cairn_err err = {0};

		assert_ok(diffsnap_query_parse(cases[i].path, cases[i].query, &query, &err), &err);
		assert_string_equal(query.ns, cases[i].ns);
		assert_string_equal(query.name, cases[i].name);
		assert_string_equal(query.base, cases[i].base);
		assert_string_equal(query.target, cases[i].target);
		assert_string_equal(query.start_offset, cases[i].start);
		assert_int_equal(query.max_entries, cases[i].max);
		assert_int_equal(query.direct, cases[i].direct);
		assert_int_equal(query.has_start, cases[i].start[0] != '\0');
	}
}

static void other_paths_are_refused(void **state)
{
	static const struct {
		const char *path, *query;
		int code;
	} cases[] = {
		{"", "", CAIRN_NOT_FOUND},
		{"/", "", CAIRN_NOT_FOUND},
		{"/a", "", CAIRN_NOT_FOUND},
		{"/a/b/c", "", CAIRN_NOT_FOUND},
		{"/a/", "", CAIRN_INVALID},
		{"//b", "", CAIRN_INVALID},
		{"/A/b", "", CAIRN_INVALID},
		{"/a/..", "", CAIRN_INVALID},
		{"/a/b-", "", CAIRN_INVALID},
		{"/a/b c", "", CAIRN_INVALID},
		{"/a/b", "maxEntries=x", CAIRN_INVALID},
		{"/a/b", "maxEntries=-1", CAIRN_INVALID},
		{"/a/b", "startOffset=%zz", CAIRN_INVALID},
		{"/a/b", "target=x", CAIRN_INVALID},
		{"/a/b", "parameters.a=1", CAIRN_INVALID},
		{"/a/b", "start=1", CAIRN_INVALID},
		{"/a/b", "=1", CAIRN_INVALID},
		{"/a/b", "startOffset=1&nextOffset=1", CAIRN_INVALID},
		{"/a/b", "startOffset=", CAIRN_INVALID},
		{"/a/b", "NextOffset", CAIRN_INVALID},
		{"/a/b", "maxEntries=", CAIRN_INVALID},
		{"/a/b", "next%4fffset=1", CAIRN_INVALID},
		{"/a/b", "startOffset=1%00", CAIRN_INVALID},
		{"/a/b", "maxEntries=1&MaxEntries=1", CAIRN_INVALID},
		{"/a/b", "fieldNames=x", CAIRN_INVALID},
		{"/a/b", "maxEntries=18446744073709551616", CAIRN_INVALID},
		{"/namespaces/a/diff", "bse=b&target=t", CAIRN_INVALID},
		{"/namespaces/a/diff", "base=b&baseVolumeSnapshotName=b&target=t", CAIRN_INVALID},
		{"/namespaces/a/diff", "", CAIRN_INVALID},
		{"/namespaces/a/diff", "base=b", CAIRN_INVALID},
		{"/namespaces/a/diff", "base=&target=t", CAIRN_INVALID},
		{"/namespaces/a/diff", "base=b&target=", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=t&mode=", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=t&volumeId", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=t&parameters.a=1&Parameters.a=2", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=T", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=t&base=../x", CAIRN_INVALID},
		{"/namespaces/a/b/diff", "target=t", CAIRN_INVALID},
		{"/namespaces//diff", "target=t", CAIRN_NOT_FOUND},
		{"/namespaces/a/diff", "target=t&parameters.=1", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=t&parameters.a=1&parameters.a=2", CAIRN_INVALID},
		{"/namespaces/a/diff", "target=t&parameters.%41=1", CAIRN_INVALID},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct diffsnap_query query;
		int rc = diffsnap_query_parse(cases[i].path, cases[i].query, &query, NULL);

		if (rc != cases[i].code)
			fail_msg("%s?%s: %d", cases[i].path, cases[i].query, rc);
	}
}

static void a_refused_parameter_is_named(void **state)
{
	static const struct {
		const char *query, *named;
	} cases[] = {
		{"bse=s1&target=s2", "'bse'"},
		{"target=s2&nextOffest=1", "'nextOffest'"},
		{"target=s2&Target=s2", "Target is given twice"},
		{"target=s2&parameters.a=1&parameters.a=1", "parameters.a is given twice"},
		{"target=s2&NextOffset=", "NextOffset is empty: there is no page after the last"},
		{"target=s2&base=", "base is empty"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct diffsnap_query query;
		struct cairn_err err = {0};

		assert_code(
			diffsnap_query_parse("/namespaces/a/diff", cases[i].query, &query, &err),
			CAIRN_INVALID);
		assert_non_null(strstr(err.msg, cases[i].named));
	}
}

static void parameters_reach_the_driver_up_to_a_limit(void **state)
{
	char text[4096] = "target=t";
	struct diffsnap_query query;
	struct cairn_err err = {0};
	size_t n = strlen(text);

	(void)state;
	for (unsigned i = 0; i < DIFFSNAP_PARAMETERS_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "&parameters.key-%u=%%20v%u", i,
				      i);
	assert_ok(diffsnap_query_parse("/namespaces/a/diff", text, &query, &err), &err);
	assert_int_equal(query.n_parameters, DIFFSNAP_PARAMETERS_MAX);
	assert_string_equal(query.parameters[3].key, "key-3");
	assert_string_equal(query.parameters[3].value, " v3");
	snprintf(text + n, sizeof(text) - n, "&parameters.more=1");
	assert_code(diffsnap_query_parse("/namespaces/a/diff", text, &query, NULL), CAIRN_INVALID);
}

static void names_that_are_too_long_are_refused(void **state)
{
	char path[600] = "/a/";
	struct diffsnap_query query;

	(void)state;
	memset(path + 3, 'x', DIFFSNAP_NAME_MAX);
	assert_code(diffsnap_query_parse(path, "", &query, NULL), 0);
	path[3 + DIFFSNAP_NAME_MAX] = 'x';
	assert_code(diffsnap_query_parse(path, "", &query, NULL), CAIRN_INVALID);
}

static void a_page_becomes_json(void **state)
{
	Csi__V1__DifferentialSnapshotResponse page;
	Csi__V1__ChangedBlock blocks[2];
	Csi__V1__ChangedBlock *list[] = {&blocks[0], &blocks[1]};
	char next[] = "12\"3";
	uint8_t context[] = {0xff, 0xfe};
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(4096);

	(void)state;
	csi__v1__differential_snapshot_response__init(&page);
	diffsnap_answer_write(&page, false, "", &out);
	cairn_buf_addc(&out, '\0');
	assert_string_equal((char *)out.data, "{\"ChangeBlockList\":[],\"NextOffset\":null,"
					      "\"VolumeSize\":0,\"Timeout\":0}\n");
	cairn_buf_reset(&out);
	for (int i = 0; i < 2; i++)
		csi__v1__changed_block__init(&blocks[i]);
	blocks[0].size = 4096;
	blocks[0].context.data = context;
	blocks[0].context.len = sizeof(context);
	blocks[1].offset = UINT64_MAX;
	blocks[1].size = 1;
	blocks[1].zero_out = true;
	page.change_block_list = list;
	page.n_change_block_list = 2;
	page.next_offset = next;
	page.volume_size = 5;
	page.timeout = 6;
	diffsnap_answer_write(&page, false, "", &out);
	cairn_buf_addc(&out, '\0');
	assert_string_equal(
		(char *)out.data,
		"{\"ChangeBlockList\":[{\"Offset\":0,\"Size\":4096,\"Context\":\"//4=\"},"
		"{\"Offset\":18446744073709551615,\"Size\":1,\"ZeroOut\":true}],"
		"\"NextOffset\":\"12\\\"3\",\"VolumeSize\":5,\"Timeout\":6}\n");
	cairn_buf_reset(&out);
	diffsnap_answer_write(&page, true, "", &out);
	cairn_buf_addc(&out, '\0');
	assert_string_equal(
		(char *)out.data,
		"{\"changeBlockList\":[{\"offset\":0,\"size\":4096,\"context\":\"//4=\"},"
		"{\"offset\":18446744073709551615,\"size\":1,\"zeroOut\":true}],"
		"\"nextOffset\":\"12\\\"3\",\"volumeSize\":5,\"timeout\":6}\n");
}

static void a_page_that_leads_to_itself_is_not_believed(void **state)
{
	static const struct {
		const char *start, *next;
		int code;
	} cases[] = {
		{"", "", 0},
		{NULL, "", 0},
		{"4096", "", 0},
		{"", "4096", 0},
		{"4096", "8192", 0},
		{"4096", "4096", CAIRN_INTERNAL},
		{"token", "token", CAIRN_INTERNAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		Csi__V1__DifferentialSnapshotResponse page;
		char next[16];

		csi__v1__differential_snapshot_response__init(&page);
		snprintf(next, sizeof(next), "%s", cases[i].next);
		page.next_offset = next;
		assert_code(diffsnap_answer_check(&page, cases[i].start, NULL), cases[i].code);
	}
}

static void the_table_finds_replaces_and_forgets(void **state)
{
	cairn_cleanup(diffsnap_table_freep) struct diffsnap_table *table = NULL;
	cairn_cleanup(diffsnap_resource_unrefp) struct diffsnap_resource *held = NULL;
	struct cairn_err err = {0};
	char key[32];

	(void)state;
	assert_ok(diffsnap_table_new(&table, &err), &err);
	for (int i = 0; i < 10000; i++) {
		struct diffsnap_resource_spec spec = {.target = key};
		struct diffsnap_resource *made;

		snprintf(key, sizeof(key), "ns/%d", i % 5000);
		assert_ok(diffsnap_resource_new(&spec, &made, &err), &err);
		assert_ok(diffsnap_table_put(table, key, made, &err), &err);
		diffsnap_resource_unref(made);
	}
	assert_int_equal(diffsnap_table_count(table), 5000);
	held = diffsnap_table_get(table, "ns/4711");
	assert_non_null(held);
	diffsnap_table_remove(table, "ns/4711");
	assert_null(diffsnap_table_get(table, "ns/4711"));
	/* Who has it goes on with it. */
	assert_string_equal(diffsnap_resource_spec(held)->target, "ns/4711");
	assert_string_equal(diffsnap_resource_spec(held)->base, "");
	diffsnap_table_remove(table, "ns/4711");
	assert_int_equal(diffsnap_table_count(table), 4999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_say_what_is_wanted),
		cmocka_unit_test(other_paths_are_refused),
		cmocka_unit_test(a_refused_parameter_is_named),
		cmocka_unit_test(parameters_reach_the_driver_up_to_a_limit),
		cmocka_unit_test(names_that_are_too_long_are_refused),
		cmocka_unit_test(a_page_becomes_json),
		cmocka_unit_test(a_page_that_leads_to_itself_is_not_believed),
		cmocka_unit_test(the_table_finds_replaces_and_forgets),
	};

	return cmocka_run_group_tests_name("diffsnap", tests, NULL, NULL);
}
