/* SPDX-License-Identifier: Apache-2.0 */

/* Which claims a backup of many takes, where their volumes are, and which begins next. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_schedule.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "kube/object.h"

#define NONE CLUSTER_SCHEDULE_NONE

static json_t *parse(const char *text)
{
	struct cairn_err err = {0};
	json_t *json = NULL;

	assert_ok(kube_json_parse(text, strlen(text), &json, &err), &err);
	return json;
}

#define CLAIM(name, metadata, spec) \
	"{\"metadata\":{\"name\":\"" name "\"" metadata "},\"spec\":{" spec "}}"
#define BOUND             "\"volumeName\":\"pv\""
#define LABELS(role, run) ",\"labels\":{" role run "}"
#define ROLE(value)       "\"cairn.csi.dev/backup\":\"" value "\""
#define RUN               ",\"cairn.csi.dev/run\":\"01234567\""
#define DELETED           ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""
#define PLACED(terms) \
	"{\"spec\":{\"nodeAffinity\":{\"required\":{\"nodeSelectorTerms\":[" terms "]}}}}"
#define TERM(requirements) "{\"matchExpressions\":[" requirements "]}"
#define IN(key, values)    "{\"key\":\"" key "\",\"operator\":\"In\",\"values\":[" values "]}"

static void claims_of_runs_are_left_out_and_those_without_data_skipped(void **state)
{
	static const struct {
		const char *claim;
		const char *skipped; /* "": left out; NULL: taken */
	} cases[] = {
		{CLAIM("a", "", BOUND), NULL},
		{CLAIM("a", "", ""), "it has no volume yet"},
		{CLAIM("a", "", "\"volumeName\":\"\""), "it has no volume yet"},
		{CLAIM("a", DELETED, BOUND), "it is being deleted"},
		{CLAIM("store", "", BOUND), "it holds the repository"},
		{CLAIM("a", LABELS(ROLE("create"), RUN), BOUND), ""},
		{CLAIM("a", LABELS(ROLE("restore"), RUN), BOUND), ""},
		/* labels that a user chose */
		{CLAIM("a", LABELS(ROLE("create"), ""), BOUND), NULL},
		{CLAIM("a", LABELS(ROLE("nightly"), RUN), BOUND), NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cairn_cleanup(backup_cluster_schedule_done) struct cluster_schedule s = {
			.jobs = 1, .jobs_per_node = 1};
		cairn_auto_free char *text = cairn_printf("{\"items\":[%s]}", cases[i].claim);
		kube_auto_json json_t *list = parse(text);
		struct cairn_err err = {0};

		assert_ok(backup_cluster_schedule_fill(&s, list, "store", &err), &err);
		if (cases[i].skipped && !*cases[i].skipped) {
			assert_int_equal(s.n, 0);
			continue;
		}
		assert_int_equal(s.n, 1);
		if (cases[i].skipped)
			assert_string_equal(s.targets[0].skipped, cases[i].skipped);
		assert_int_equal(backup_cluster_schedule_begin(&s), cases[i].skipped ? NONE : 0);
	}
}

static void the_node_of_a_volume_is_known_if_it_is_one(void **state)
{
	static const struct {
		const char *volume, *node;
	} cases[] = {
		{PLACED(TERM(IN("topology.d/node", "\"a\""))), "a"},
		{PLACED(TERM(IN("kubernetes.io/hostname", "\"a\""))), "a"},
		{PLACED("{\"matchFields\":[" IN("metadata.name", "\"a\"") "]}"), "a"},
		{PLACED(TERM(IN("x/zone", "\"z\"") "," IN("d/node", "\"a\""))), "a"},
		/* any node of a zone */
		{PLACED(TERM(IN("topology.kubernetes.io/zone", "\"z\""))), NULL},
		{PLACED(TERM(IN("topology.kubernetes.io/region", "\"r\""))), NULL},
		/* several */
		{PLACED(TERM(IN("d/node", "\"a\",\"b\""))), NULL},
		{PLACED(TERM(IN("d/node", "\"a\"")) "," TERM(IN("d/node", "\"b\""))), NULL},
		{PLACED(""), NULL},
		{"{\"spec\":{}}", NULL},
		/* not what the API server would store */
		{PLACED(TERM(IN("d/node", ""))), NULL},
		{PLACED(TERM(IN("d/node", "7"))), NULL},
		{PLACED("7"), NULL},
		{PLACED(TERM("{\"key\":\"d/node\",\"operator\":\"NotIn\",\"values\":[\"a\"]}")),
		 NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		kube_auto_json json_t *volume = parse(cases[i].volume);
		const char *node = backup_cluster_volume_node(volume);

		if (cases[i].node)
			assert_string_equal(node, cases[i].node);
		else
			assert_null(node);
	}
}

/* A schedule of claims on the nodes of `nodes`, one letter each; '-': on no single node. */
static void fill(struct cluster_schedule *s, const char *nodes)
{
	kube_auto_json json_t *list = parse("{\"items\":[]}");
	struct cairn_err err = {0};

	for (size_t i = 0; nodes[i]; i++)
		json_array_append_new(kube_at(list, "items"), parse(CLAIM("a", "", BOUND)));
	assert_ok(backup_cluster_schedule_fill(s, list, NULL, &err), &err);
	for (size_t i = 0; nodes[i]; i++) {
		char node[2] = {nodes[i]};

		assert_ok(backup_cluster_schedule_place(s, i, nodes[i] == '-' ? NULL : node, &err),
			  &err);
	}
}

static void limits_hold_in_all_and_per_node(void **state)
{
	cairn_cleanup(backup_cluster_schedule_done) struct cluster_schedule s = {
		.jobs = 4, .jobs_per_node = 2};

	(void)state;
	fill(&s, "aaab-b");
	assert_int_equal(backup_cluster_schedule_begin(&s), 0);
	assert_int_equal(backup_cluster_schedule_begin(&s), 1);
	assert_int_equal(backup_cluster_schedule_begin(&s), 3); /* `a` has two */
	assert_int_equal(backup_cluster_schedule_begin(&s), 4);
	assert_int_equal(backup_cluster_schedule_begin(&s), NONE); /* four in all */
	backup_cluster_schedule_end(&s, 4, false);
	assert_int_equal(backup_cluster_schedule_begin(&s), 5);
	backup_cluster_schedule_end(&s, 5, false);
	assert_int_equal(backup_cluster_schedule_begin(&s), NONE);
	assert_true(backup_cluster_schedule_waits(&s));
	backup_cluster_schedule_end(&s, 0, false);
	assert_int_equal(backup_cluster_schedule_begin(&s), 2);
	assert_false(backup_cluster_schedule_waits(&s));
	assert_string_equal(backup_cluster_schedule_node(&s, 2), "a");
	assert_null(backup_cluster_schedule_node(&s, 4));
}

static void a_node_that_is_late_comes_last(void **state)
{
	cairn_cleanup(backup_cluster_schedule_done) struct cluster_schedule s = {
		.jobs = 1, .jobs_per_node = 1};
	static const size_t order[] = {0, 2, 3, 1};

	(void)state;
	fill(&s, "aabb");
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		assert_int_equal(backup_cluster_schedule_begin(&s), order[i]);
		backup_cluster_schedule_end(&s, order[i], order[i] == 0);
	}
	assert_int_equal(backup_cluster_schedule_begin(&s), NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(claims_of_runs_are_left_out_and_those_without_data_skipped),
		cmocka_unit_test(the_node_of_a_volume_is_known_if_it_is_one),
		cmocka_unit_test(limits_hold_in_all_and_per_node),
		cmocka_unit_test(a_node_that_is_late_comes_last),
	};

	return cmocka_run_group_tests_name("backup/schedule", tests, NULL, NULL);
}
