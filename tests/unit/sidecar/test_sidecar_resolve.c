/* SPDX-License-Identifier: Apache-2.0 */

/* Against a made-up Kubernetes (sidecar_world.h). */

#include "cairntest.h"

#include <string.h>

#include "base/clock.h"
#include "kube/object.h"
#include "kube/user.h"
#include "sidecar/access.h"
#include "sidecar/resolve.h"
#include "sidecar/secret.h"
#include "sidecar_world.h"

#define FOREVER  1000000000U
#define CONTENTS "volumesnapshotcontents"
#define CLASSES  "volumesnapshotclasses"

struct fixture {
	struct sidecar_world world;
	struct sidecar_resolve *names;
	struct sidecar_access *access;
};

static void start(struct fixture *f, uint64_t keep_ms)
{
	struct sidecar_resolve_options options = {.keep_ms = keep_ms, .refusal_ms = keep_ms};
	struct sidecar_access_options access = {.keep_ms = keep_ms, .refusal_ms = keep_ms};
	struct cairn_err err = {0};

	world_init(&f->world);
	world_snapshot(&f->world, "ns", "snap");
	world_token(&f->world, "good", "aud", "ann");
	world_allow(&f->world, "ann", "ns", "*");
	options.kube = access.kube = world_table(&f->world);
	assert_ok(sidecar_resolve_new(&options, &f->names, &err), &err);
	assert_ok(sidecar_access_new(&access, &f->access, &err), &err);
}

static void stop(struct fixture *f)
{
	sidecar_resolve_free(f->names);
	sidecar_access_free(f->access);
	world_done(&f->world);
}

static int find(struct fixture *f, const char *ns, const char *name, struct cairn_err *err)
{
	kube_auto_value struct sidecar_snapshot *s = NULL;

	return sidecar_resolve_find(f->names, WORLD_DRIVER, ns, name, &world_patience, &s, err);
}

static void a_name_becomes_a_handle(void **state)
{
	kube_auto_value struct sidecar_snapshot *s = NULL;
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, FOREVER);
	assert_ok(sidecar_resolve_find(f.names, WORLD_DRIVER, "ns", "snap", &world_patience, &s,
				       &err),
		  &err);
	assert_string_equal(s->handle, "h-snap");
	assert_string_equal(s->volume, "vol");
	assert_string_equal(s->content, "c-snap");
	assert_null(s->secret);
	assert_int_equal(f.world.gets, 3);
	assert_ok(find(&f, "ns", "snap", &err), &err);
	assert_int_equal(f.world.gets, 3);
	world_snapshot(&f.world, "ns", "second"); /* its class is known */
	assert_ok(find(&f, "ns", "second", &err), &err);
	assert_int_equal(f.world.gets, 5);
	stop(&f);
}

static void what_has_no_usable_handle_gets_the_right_code(void **state)
{
	static const struct {
		const char *snapshot, *content; /* NULL: as they should be; "": not there */
		int code;
		const char *text;
	} cases[] = {
		{"", NULL, CAIRN_NOT_FOUND, "failed to get VolumeSnapshot 'ns/snap'"},
		{"{}", NULL, CAIRN_UNAVAILABLE, "the VolumeSnapshot is not yet ready, name: snap"},
		{"{'status': {'readyToUse': true, 'boundVolumeSnapshotContentName': 'gone'}}", NULL,
		 CAIRN_NOT_FOUND, "failed to get VolumeSnapshotContent 'gone'"},
		{NULL, "", CAIRN_NOT_FOUND, "failed to get VolumeSnapshotContent 'c-snap'"},
		{NULL,
		 "{'spec': {'driver': 'else.test', 'volumeSnapshotRef': {'namespace': 'ns', "
		 "'name': 'snap', 'uid': 'uid-snap'}}, 'status': {'readyToUse': true, "
		 "'snapshotHandle': 'h'}}",
		 CAIRN_INVALID,
		 "VolumeSnapshot 'snap' does not belong to the CSI driver 'driver.test'"},
		{NULL,
		 "{'spec': {'driver': 'driver.test', 'volumeSnapshotRef': {'namespace': 'other', "
		 "'name': 'snap'}}, 'status': {'readyToUse': true, 'snapshotHandle': 'h'}}",
		 CAIRN_PRECONDITION, "is not bound to VolumeSnapshot 'ns/snap'"},
		{NULL, "{'spec': 3, 'status': []}", CAIRN_PRECONDITION, "is not bound"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		struct fixture f;

		start(&f, 0);
		if (cases[i].snapshot && cases[i].snapshot[0])
			world_put(&f.world, "volumesnapshots", "ns", "snap", cases[i].snapshot);
		else if (cases[i].snapshot)
			world_remove(&f.world, "volumesnapshots", "ns", "snap");
		if (cases[i].content && cases[i].content[0])
			world_put(&f.world, CONTENTS, NULL, "c-snap", cases[i].content);
		else if (cases[i].content)
			world_remove(&f.world, CONTENTS, NULL, "c-snap");
		assert_int_equal(find(&f, "ns", "snap", &err), cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		if (!strstr(err.msg, cases[i].text))
			fail_msg("'%s' is not in '%s'", cases[i].text, err.msg);
		stop(&f);
	}
}

static void failures_of_the_api_server_keep_or_get_a_code(void **state)
{
	static const struct {
		int fail, code;
	} cases[] = {
		{CAIRN_UNAVAILABLE, CAIRN_UNAVAILABLE},  {CAIRN_DENIED, CAIRN_INTERNAL},
		{CAIRN_UNAUTHENTICATED, CAIRN_INTERNAL}, {CAIRN_INTERNAL, CAIRN_INTERNAL},
		{CAIRN_INVALID, CAIRN_INTERNAL},         {CAIRN_DEADLINE, CAIRN_DEADLINE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		struct fixture f;

		start(&f, FOREVER);
		f.world.fail = cases[i].fail;
		assert_int_equal(find(&f, "ns", "snap", &err), cases[i].code);
		f.world.fail = 0; /* none of them was an answer */
		assert_ok(find(&f, "ns", "snap", &err), &err);
		stop(&f);
	}
}

static void a_snapshot_that_becomes_ready_is_seen_at_once(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, FOREVER);
	world_put(&f.world, "volumesnapshots", "ns", "new", "{}");
	assert_code(find(&f, "ns", "new", &err), CAIRN_UNAVAILABLE);
	world_snapshot(&f.world, "ns", "new");
	assert_ok(find(&f, "ns", "new", &err), &err);
	stop(&f);
}

/* --- secrets --- */

#define WITH_SECRET                                                      \
	"{'driver': 'driver.test', 'metadata': {'annotations': "         \
	"{'snapshot.storage.kubernetes.io/is-default-class': 'true'}}, " \
	"'parameters': {'csi.storage.k8s.io/snapshotter-secret-name': "  \
	"'s-${volumesnapshot.name}', "                                   \
	"'csi.storage.k8s.io/snapshotter-secret-namespace': "            \
	"'${volumesnapshot.namespace}'}}"
#define DEFAULT_PLAIN                                            \
	"{'driver': 'driver.test', 'metadata': {'annotations': " \
	"{'snapshot.storage.kubernetes.io/is-default-class': 'true'}}}"
#define NO_CLASS                                                   \
	"{'metadata': {'uid': 'uid-snap'}, 'spec': {}, 'status': " \
	"{'readyToUse': true, 'boundVolumeSnapshotContentName': 'c-snap'}}"

/* What a snapshot without class, or of class "plain", is answered with. */
static void secrets_come_from_the_class_and_only_if_it_names_one(void **state)
{
	static const struct {
		const char *snapshot; /* NULL: of class "plain" */
		const char *plain;    /* NULL: without secret; "": not there */
		const char *other;    /* another class */
		bool noted;           /* on the content, by the controller */
		const char *want;     /* value of key "k"; NULL: no secret */
		int code;
	} cases[] = {
		{NULL, NULL, NULL, false, NULL, 0},
		{NULL, WITH_SECRET, NULL, false, "v1", 0},
		{NULL, "", NULL, false, NULL, 0},
		{NULL, "", NULL, true, "noted", 0},
		{NULL, NULL, NULL, true, NULL, 0}, /* the class has the last word */
		{NO_CLASS, "", NULL, false, NULL, 0},
		{NO_CLASS, "", NULL, true, "noted", 0},
		{NO_CLASS, NULL, NULL, false, NULL, 0}, /* plain is no default */
		{NO_CLASS, DEFAULT_PLAIN, NULL, false, NULL, 0},
		{NO_CLASS, WITH_SECRET, NULL, false, "v1", 0},
		{NO_CLASS, DEFAULT_PLAIN, DEFAULT_PLAIN, false, NULL, 0},
		{NO_CLASS, DEFAULT_PLAIN, WITH_SECRET, false, NULL, CAIRN_INTERNAL},
		{NULL, "{'parameters': {'csi.storage.k8s.io/snapshotter-secret-name': 'x'}}", NULL,
		 false, NULL, CAIRN_INTERNAL},
		{NULL,
		 "{'parameters': {'csi.storage.k8s.io/snapshotter-secret-name': '${x}', "
		 "'csi.storage.k8s.io/snapshotter-secret-namespace': 'ns'}}",
		 NULL, false, NULL, CAIRN_INTERNAL},
		{NULL,
		 "{'parameters': {'csi.storage.k8s.io/snapshotter-secret-name': 'absent', "
		 "'csi.storage.k8s.io/snapshotter-secret-namespace': 'ns'}}",
		 NULL, false, NULL, CAIRN_INTERNAL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_value struct sidecar_snapshot *s = NULL;
		struct cairn_err err = {0};
		struct fixture f;
		int rc;

		start(&f, 0);
		world_put(&f.world, "secrets", "ns", "s-snap", "{'data': {'k': 'djE='}}");
		world_put(&f.world, "secrets", "ns", "noted", "{'data': {'k': 'bm90ZWQ='}}");
		if (cases[i].snapshot)
			world_put(&f.world, "volumesnapshots", "ns", "snap", cases[i].snapshot);
		if (cases[i].plain && cases[i].plain[0])
			world_put(&f.world, CLASSES, NULL, "plain", cases[i].plain);
		else if (cases[i].plain)
			world_remove(&f.world, CLASSES, NULL, "plain");
		if (cases[i].other)
			world_put(&f.world, CLASSES, NULL, "other", cases[i].other);
		if (cases[i].noted)
			world_put(&f.world, CONTENTS, NULL, "c-snap",
				  "{'metadata': {'annotations': "
				  "{'snapshot.storage.kubernetes.io/deletion-secret-name': "
				  "'noted', "
				  "'snapshot.storage.kubernetes.io/deletion-secret-namespace': "
				  "'ns'}}, 'spec': {'driver': 'driver.test', 'volumeSnapshotRef': "
				  "{'namespace': 'ns', 'name': 'snap', 'uid': 'uid-snap'}}, "
				  "'status': {'readyToUse': true, 'snapshotHandle': 'h'}}");
		rc = sidecar_resolve_find(f.names, WORLD_DRIVER, "ns", "snap", &world_patience, &s,
					  &err);
		if (rc != cases[i].code)
			fail_msg("case %zu: %s (%s)", i, cairn_code_name(rc), err.msg);
		if (rc == 0 && !cases[i].want)
			assert_null(s->secret);
		if (rc == 0 && cases[i].want) {
			assert_non_null(s->secret);
			assert_int_equal(s->secret->n, 1);
			assert_string_equal(s->secret->entries[0].value, cases[i].want);
		}
		kube_value_unrefp(&s);
		s = NULL;
		stop(&f);
	}
}

static void a_class_that_may_not_be_read_is_done_without(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, 0);
	f.world.no_class = 1;
	assert_ok(find(&f, "ns", "snap", &err), &err);
	stop(&f);
}

static void a_secret_must_be_text(void **state)
{
	static const struct {
		const char *object;
		int code;
	} cases[] = {
		{"{}", 0},
		{"{\"data\": {\"a\": \"YQ==\", \"b\": \"\"}}", 0},
		{"{\"data\": {\"a\": \"w7bDpA==\"}}", 0},
		{"{\"data\": {\"a\": \"!!\"}}", CAIRN_INVALID},
		{"{\"data\": {\"a\": 1}}", CAIRN_INVALID},
		{"{\"data\": {\"a\": \"AA==\"}}", CAIRN_INVALID}, /* a NUL */
		{"{\"data\": {\"a\": \"/w==\"}}", CAIRN_INVALID}, /* no UTF-8 */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		kube_auto_json json_t *object = json_loads(cases[i].object, 0, NULL);
		struct sidecar_secret *secret = NULL;
		struct cairn_err err = {0};

		assert_int_equal(sidecar_secret_new(object, &secret, &err), cases[i].code);
		/* The text of a failure names the key, never the value. */
		assert_null(strstr(err.msg, "=="));
		sidecar_secret_free(secret);
	}
}

static void templates_know_three_names(void **state)
{
	static const struct {
		const char *text, *want; /* NULL: refused */
		bool without_name;
	} cases[] = {
		{"plain", "plain", false},
		{"", "", false},
		{"${volumesnapshot.name}", "N", false},
		{"a-${volumesnapshot.namespace}-${volumesnapshotcontent.name}", "a-S-C", false},
		{"${volumesnapshot.name}", NULL, true},
		{"${}", NULL, false},
		{"${volumesnapshot.nam}", NULL, false},
		{"${volumesnapshot.name", NULL, false},
		{"$volumesnapshot.name", NULL, false},
		{"x$", NULL, false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sidecar_template with = {
			.content = "C", .ns = "S", .name = cases[i].without_name ? NULL : "N"};
		cairn_auto_free char *got = NULL;
		int rc = sidecar_template_expand(&with, cases[i].text, &got, NULL);

		assert_int_equal(rc, cases[i].want ? 0 : CAIRN_INVALID);
		if (cases[i].want)
			assert_string_equal(got, cases[i].want);
	}
}

/* --- the base of a delta --- */

static int check_base(struct fixture *f, const char *id, bool owned, struct cairn_err *err)
{
	kube_auto_value struct sidecar_snapshot *target = NULL;
	kube_auto_value struct kube_user *user = NULL;
	struct sidecar_base base = {
		.driver = WORLD_DRIVER, .id = id, .access = f->access, .owned = owned};
	int rc = sidecar_resolve_find(f->names, WORLD_DRIVER, "ns", "snap", &world_patience,
				      &target, err);

	if (!rc)
		rc = sidecar_access_user(f->access, WORLD_DRIVER, "good", &world_patience, &user,
					 err);
	assert_ok(rc, err);
	base.target = target;
	base.user = user;
	return sidecar_resolve_check_base(f->names, &base, &world_patience, err);
}

static void put_content(struct fixture *f, const char *name, const char *text)
{
	world_put(&f->world, CONTENTS, NULL, name, text);
}

static void a_base_is_tied_to_volume_and_namespace_where_kubernetes_knows_it(void **state)
{
	static const struct {
		const char *id;
		bool owned;
		int code;
	} cases[] = {
		{"h-old", false, 0},
		{"h-old", true, 0},
		{"h-snap", true, 0}, /* itself */
		{"h-foreign", false, CAIRN_DENIED},
		{"h-volume", false, CAIRN_INVALID},
		{"h-import", false, 0}, /* its volume is not known */
		{"h-twice", false, 0},  /* two contents, one of them in our namespace */
		{"h-hidden", false, CAIRN_DENIED},
		{"h-else", false, 0}, /* a handle of another driver means nothing to us */
		{"unknown", false, 0},
		{"unknown", true, CAIRN_NOT_FOUND},
		{"h-else", true, CAIRN_NOT_FOUND},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cairn_err err = {0};
		struct fixture f;
		int rc;

		start(&f, FOREVER);
		world_forbid(&f.world, "ann", "ns", "*");
		world_allow(&f.world, "ann", "ns", "snap");
		world_allow(&f.world, "ann", "ns", "old");
		world_allow(&f.world, "ann", "ns", "import");
		world_allow(&f.world, "ann", "ns", "volume");
		world_snapshot(&f.world, "ns", "old");
		world_snapshot(&f.world, "other", "foreign");
		world_snapshot(&f.world, "ns", "hidden");
		put_content(&f, "c1",
			    "{'spec': {'driver': 'driver.test', 'source': {'volumeHandle': 'v2'}, "
			    "'volumeSnapshotRef': {'namespace': 'ns', 'name': 'volume'}}, "
			    "'status': {'snapshotHandle': 'h-volume'}}");
		put_content(&f, "c2",
			    "{'spec': {'driver': 'driver.test', 'volumeSnapshotRef': {'namespace': "
			    "'ns', 'name': 'import'}}, 'status': {'snapshotHandle': 'h-import'}}");
		put_content(&f, "c3",
			    "{'spec': {'driver': 'driver.test', 'volumeSnapshotRef': {'namespace': "
			    "'other', 'name': 'x'}}, 'status': {'snapshotHandle': 'h-twice'}}");
		put_content(&f, "c4",
			    "{'spec': {'driver': 'driver.test', 'volumeSnapshotRef': {'namespace': "
			    "'ns', 'name': 'old'}}, 'status': {'snapshotHandle': 'h-twice'}}");
		put_content(&f, "c5",
			    "{'spec': {'driver': 'else.test', 'volumeSnapshotRef': {'namespace': "
			    "'other', 'name': 'x'}}, 'status': {'snapshotHandle': 'h-else'}}");
		rc = check_base(&f, cases[i].id, cases[i].owned, &err);
		if (rc != cases[i].code)
			fail_msg("%s: %s (%s)", cases[i].id, cairn_code_name(rc), err.msg);
		/* A stranger's name and volume are not revealed. */
		if (rc == CAIRN_DENIED)
			assert_null(strstr(err.msg, "other"));
		stop(&f);
	}
}

static void without_the_right_to_look_a_base_passes_unless_it_must_be_owned(void **state)
{
	struct cairn_err err = {0};
	struct fixture f;

	(void)state;
	start(&f, FOREVER);
	f.world.blind = 1;
	assert_ok(check_base(&f, "h-any", false, &err), &err);
	assert_code(check_base(&f, "h-any", true, &err), CAIRN_INTERNAL);
	stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_becomes_a_handle),
		cmocka_unit_test(what_has_no_usable_handle_gets_the_right_code),
		cmocka_unit_test(failures_of_the_api_server_keep_or_get_a_code),
		cmocka_unit_test(a_snapshot_that_becomes_ready_is_seen_at_once),
		cmocka_unit_test(secrets_come_from_the_class_and_only_if_it_names_one),
		cmocka_unit_test(a_class_that_may_not_be_read_is_done_without),
		cmocka_unit_test(a_secret_must_be_text),
		cmocka_unit_test(templates_know_three_names),
		cmocka_unit_test(a_base_is_tied_to_volume_and_namespace_where_kubernetes_knows_it),
		cmocka_unit_test(without_the_right_to_look_a_base_passes_unless_it_must_be_owned),
	};

	return cmocka_run_group_tests_name("sidecar/resolve", tests, NULL, NULL);
}
