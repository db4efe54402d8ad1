/* SPDX-License-Identifier: Apache-2.0 */

/* The nodes of the Job that reads a claim made from a snapshot. */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_affinity.h"
#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"

static json_t *parse(const char *text)
{
	struct cairn_err err = {0};
	json_t *json = NULL;

	assert_ok(kube_json_parse(text, strlen(text), &json, &err), &err);
	return json;
}

#define OF_NODE(node)                                                              \
	"{\"matchExpressions\":[{\"key\":\"topology.d/node\",\"operator\":\"In\"," \
	"\"values\":[\"" node "\"]}]}"
#define BY_NAME(node)                                                       \
	"{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\"," \
	"\"values\":[\"" node "\"]}]}"
#define VOLUME_OF(terms)                                                  \
	"{\"spec\":{\"csi\":{\"driver\":\"d\",\"volumeHandle\":\"new\"}," \
	"\"nodeAffinity\":{\"required\":{\"nodeSelectorTerms\":[" terms "]}}}}"
#define CONTENT_OF(driver, handle, labels)                                     \
	"{\"metadata\":{\"labels\":" labels "},\"spec\":{\"driver\":\"" driver \
	"\",\"source\":{\"volumeHandle\":\"" handle "\"}}}"
#define MANAGED_BY(node) "{\"" KUBE_SNAPSHOT_NODE_LABEL "\":\"" node "\"}"
#define ANYWHERE         "{\"spec\":{\"csi\":{\"driver\":\"d\",\"volumeHandle\":\"new\"}}}"
#define LATE             "{\"volumeBindingMode\":\"WaitForFirstConsumer\"}"
#define AT_ONCE          "{\"volumeBindingMode\":\"Immediate\"}"

static void a_pod_runs_where_the_driver_has_the_snapshot(void **state)
{
	static const struct {
		const char *volume, *content, *storage_class;
		const char *terms; /* NULL: any node */
	} cases[] = {
		{VOLUME_OF(OF_NODE("a")), NULL, LATE, OF_NODE("a")},
		/* a zone with its nodes, and terms of which one must match */
		{VOLUME_OF(OF_NODE("a\",\"b")), NULL, LATE, OF_NODE("a\",\"b")},
		{VOLUME_OF(OF_NODE("a") "," OF_NODE("b")), NULL, LATE,
		 OF_NODE("a") "," OF_NODE("b")},
		{ANYWHERE, NULL, LATE, NULL},
		{VOLUME_OF(""), NULL, LATE, NULL},
		/* the class */
		{VOLUME_OF(OF_NODE("a")), NULL, NULL, OF_NODE("a")},
		{VOLUME_OF(OF_NODE("a")), NULL, AT_ONCE, NULL},
		{VOLUME_OF(OF_NODE("a")), NULL, "{}", NULL},
		{NULL, CONTENT_OF("d", "old", MANAGED_BY("b")), AT_ONCE, NULL},
		/* the snapshot is of this volume, whatever its label says */
		{VOLUME_OF(OF_NODE("a")), CONTENT_OF("d", "new", "{}"), LATE, OF_NODE("a")},
		{VOLUME_OF(OF_NODE("a")), CONTENT_OF("d", "new", MANAGED_BY("b")), LATE,
		 OF_NODE("a")},
		{ANYWHERE, CONTENT_OF("d", "new", MANAGED_BY("b")), LATE, NULL},
		/* the snapshot is of another volume, which is gone */
		{VOLUME_OF(OF_NODE("a")), CONTENT_OF("d", "old", MANAGED_BY("b")), LATE,
		 BY_NAME("b")},
		{VOLUME_OF(OF_NODE("a")), CONTENT_OF("e", "new", MANAGED_BY("b")), LATE,
		 BY_NAME("b")},
		{VOLUME_OF(OF_NODE("a")), CONTENT_OF("d", "old", "{}"), LATE, NULL},
		{VOLUME_OF(OF_NODE("a")), CONTENT_OF("d", "old", MANAGED_BY("")), LATE, NULL},
		{NULL, CONTENT_OF("d", "old", MANAGED_BY("b")), LATE, BY_NAME("b")},
		{NULL, NULL, LATE, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *volume = cases[i].volume ? parse(cases[i].volume) : NULL;
		kube_auto_json json_t *content = cases[i].content ? parse(cases[i].content) : NULL;
		kube_auto_json json_t *class_object =
			cases[i].storage_class ? parse(cases[i].storage_class) : NULL;
		struct cluster_origin origin = {volume, content, class_object};
		kube_auto_json json_t *affinity = NULL;
		cairn_auto_free char *text = NULL;
		cairn_auto_free char *want = NULL;

		assert_code(backup_cluster_node_affinity(&origin, &affinity, NULL), 0);
		text = affinity ? kube_json_text(affinity, NULL) : NULL;
		want = cairn_printf("{\"requiredDuringSchedulingIgnoredDuringExecution\":"
				    "{\"nodeSelectorTerms\":[%s]}}",
				    cases[i].terms ? cases[i].terms : "");
		if (!text != !cases[i].terms || (text && strcmp(text, want) != 0))
			fail_msg("case %zu: %s", i, text ? text : "any node");
	}
}

static void a_patch_may_choose_other_nodes_than_the_job(void **state)
{
	static const char *const args[] = {"backup", "create", NULL};
	struct cluster_names names = {0};
	kube_auto_json json_t *affinity =
		parse("{\"requiredDuringSchedulingIgnoredDuringExecution\":"
		      "{\"nodeSelectorTerms\":[" OF_NODE("a") "]}}");
	kube_auto_json json_t *more = parse("{\"spec\":{\"template\":{\"spec\":{\"affinity\":"
					    "{\"podAntiAffinity\":{}}}}}}");
	kube_auto_json json_t *none = parse("{\"spec\":{\"template\":{\"spec\":{\"affinity\":"
					    "{\"nodeAffinity\":null}}}}}");
	struct cluster_job_spec spec = {.names = &names,
					.image = "i",
					.args = args,
					.node_affinity = affinity,
					.patch = more};
	kube_auto_json json_t *job = NULL;
	kube_auto_json json_t *other = NULL;

	(void)state;
	assert_code(backup_cluster_names_make("shop", "data", CLUSTER_ROLE_CREATE, "secret", 0,
					      &names, NULL),
		    0);
	assert_code(backup_cluster_job(&spec, &job, NULL), 0);
	assert_true(json_equal(kube_at(job, "spec", "template", "spec", "affinity", "nodeAffinity"),
			       affinity));
	assert_non_null(kube_at(job, "spec", "template", "spec", "affinity", "podAntiAffinity"));
	spec.patch = none;
	assert_code(backup_cluster_job(&spec, &other, NULL), 0);
	assert_null(kube_at(other, "spec", "template", "spec", "affinity", "nodeAffinity"));
}

static size_t left; /* allocations until one fails; 0: none fails */

static void *scarce(size_t size)
{
	return left && --left == 0 ? NULL : malloc(size);
}

static void memory_that_is_short_is_not_any_node(void **state)
{
	kube_auto_json json_t *volume = parse(VOLUME_OF(OF_NODE("a")));
	struct cluster_origin origin = {.volume = volume};
	int rc = CAIRN_NO_SPACE;
	size_t n;

	(void)state;
	json_set_alloc_funcs(scarce, free);
	for (n = 1; rc == CAIRN_NO_SPACE && n < 100; n++) {
		kube_auto_json json_t *affinity = NULL;

		left = n;
		rc = backup_cluster_node_affinity(&origin, &affinity, NULL);
		left = 0;
		assert_true(rc == 0 ? affinity != NULL : rc == CAIRN_NO_SPACE && !affinity);
	}
	json_set_alloc_funcs(malloc, free);
	assert_code(rc, 0);
	assert_true(n > 2); /* one failed */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pod_runs_where_the_driver_has_the_snapshot),
		cmocka_unit_test(a_patch_may_choose_other_nodes_than_the_job),
		cmocka_unit_test(memory_that_is_short_is_not_any_node),
	};

	return cmocka_run_group_tests_name("backup/affinity", tests, NULL, NULL);
}
