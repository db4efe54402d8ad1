/* SPDX-License-Identifier: Apache-2.0 */

/* Which VolumeSnapshot is good: every rule, on objects in memory. */

#include "kube/kube_snapshot.h"

#include <string.h>

#include "base/cleanup.h"
#include "cairntest.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

struct objects {
	const char *snapshot, *content;
	int fail; /* code of every read */
};

static int get(void *arg, const struct kube_ref *ref, json_t **ret, struct cairn_err *err)
{
	const struct objects *o = arg;
	const char *text = ref->resource == &kube_volumesnapshots ? o->snapshot : o->content;

	if (o->fail)
		return cairn_err_set(err, o->fail, "read failed");
	if (!text)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "not there");
	assert_string_equal(ref->name, ref->ns ? "snap" : "content");
	return kube_json_parse(text, strlen(text), ret, err);
}

static int resolve(struct objects *o, const char *driver, struct kube_snapshot *ret,
		   struct cairn_err *err)
{
	const struct kube_snapshot_query query = {
		.ns = "ns", .name = "snap", .driver = driver, .get = get, .arg = o};

	return kube_snapshot_resolve(&query, ret, err);
}

#define SNAPSHOT(status)                                                                           \
	"{\"metadata\":{\"name\":\"snap\",\"namespace\":\"ns\",\"uid\":\"u1\"},\"status\":" status \
	"}"
#define BOUND             "{\"readyToUse\":true,\"boundVolumeSnapshotContentName\":\"content\"}"
#define REF(name, ns, id) "{\"name\":\"" name "\",\"namespace\":\"" ns "\",\"uid\":\"" id "\"}"
#define OURS              REF("snap", "ns", "u1")
#define CONTENT_OF(driver, ref, status)                                                            \
	"{\"metadata\":{\"name\":\"content\"},\"spec\":{\"driver\":" driver                        \
	",\"source\":{\"volumeHandle\":\"vol\"},\"volumeSnapshotRef\":" ref "},\"status\":" status \
	"}"
#define CONTENT(ref, status) CONTENT_OF("\"drv\"", ref, status)
#define READY                "{\"readyToUse\":true,\"snapshotHandle\":\"handle\"}"

static const struct {
	const char *snapshot, *content;
	int code;
	const char *text;
} cases[] = {
	{SNAPSHOT(BOUND), CONTENT(OURS, READY), 0, ""},
	/* a content made by hand does not know the uid */
	{SNAPSHOT(BOUND), CONTENT(REF("snap", "ns", ""), READY), 0, ""},
	{SNAPSHOT(BOUND), CONTENT("{\"name\":\"snap\",\"namespace\":\"ns\"}", READY), 0, ""},
	/* the snapshot */
	{NULL, CONTENT(OURS, READY), CAIRN_NOT_FOUND, "not there"},
	{"{}", CONTENT(OURS, READY), CAIRN_UNAVAILABLE,
	 "the VolumeSnapshot is not yet ready, name: snap"},
	{SNAPSHOT("null"), CONTENT(OURS, READY), CAIRN_UNAVAILABLE, "not yet ready"},
	{SNAPSHOT("{}"), CONTENT(OURS, READY), CAIRN_UNAVAILABLE, "not yet ready"},
	{SNAPSHOT("{\"boundVolumeSnapshotContentName\":\"content\"}"), CONTENT(OURS, READY),
	 CAIRN_UNAVAILABLE, "not yet ready"},
	{SNAPSHOT("{\"readyToUse\":false,\"boundVolumeSnapshotContentName\":\"content\"}"),
	 CONTENT(OURS, READY), CAIRN_UNAVAILABLE, "not yet ready"},
	{SNAPSHOT("{\"readyToUse\":\"true\",\"boundVolumeSnapshotContentName\":\"content\"}"),
	 CONTENT(OURS, READY), CAIRN_UNAVAILABLE, "not yet ready"},
	{SNAPSHOT("{\"readyToUse\":true}"), CONTENT(OURS, READY), CAIRN_UNAVAILABLE,
	 "boundVolumeSnapshotContentName is not set in VolumeSnapshot status, name: snap"},
	{SNAPSHOT("{\"readyToUse\":true,\"boundVolumeSnapshotContentName\":\"\"}"),
	 CONTENT(OURS, READY), CAIRN_UNAVAILABLE, "boundVolumeSnapshotContentName is not set"},
	/* the way back */
	{SNAPSHOT(BOUND), NULL, CAIRN_NOT_FOUND, "not there"},
	{SNAPSHOT(BOUND), CONTENT(REF("snap", "ns", "u2"), READY), CAIRN_PRECONDITION,
	 "VolumeSnapshotContent 'content' is not bound to VolumeSnapshot 'ns/snap'"},
	{SNAPSHOT(BOUND), CONTENT(REF("snap", "other", "u1"), READY), CAIRN_PRECONDITION,
	 "is not bound to"},
	{SNAPSHOT(BOUND), CONTENT(REF("other", "ns", "u1"), READY), CAIRN_PRECONDITION,
	 "is not bound to"},
	{SNAPSHOT(BOUND), CONTENT("null", READY), CAIRN_PRECONDITION, "is not bound to"},
	{SNAPSHOT(BOUND), "{\"spec\":3,\"status\":[]}", CAIRN_PRECONDITION, "is not bound to"},
	/* the content */
	{SNAPSHOT(BOUND), CONTENT_OF("null", OURS, READY), CAIRN_PRECONDITION, "names no driver"},
	{SNAPSHOT(BOUND), CONTENT_OF("\"\"", OURS, READY), CAIRN_PRECONDITION, "names no driver"},
	{SNAPSHOT(BOUND), CONTENT(OURS, "null"), CAIRN_UNAVAILABLE,
	 "the VolumeSnapshotContent is not yet ready, name: content"},
	{SNAPSHOT(BOUND), CONTENT(OURS, "{\"snapshotHandle\":\"handle\"}"), CAIRN_UNAVAILABLE,
	 "not yet ready"},
	{SNAPSHOT(BOUND), CONTENT(OURS, "{\"readyToUse\":true}"), CAIRN_UNAVAILABLE,
	 "snapshotHandle is not set in VolumeSnapshotContent status, name: content"},
	{SNAPSHOT(BOUND), CONTENT(OURS, "{\"readyToUse\":true,\"snapshotHandle\":\"\"}"),
	 CAIRN_UNAVAILABLE, "snapshotHandle is not set"},
};

static void a_snapshot_has_a_handle_only_when_every_rule_holds(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(kube_snapshot_done) struct kube_snapshot found = {0};
		struct objects objects = {cases[i].snapshot, cases[i].content, 0};
		struct cairn_err err = {0};

		if (resolve(&objects, NULL, &found, &err) != cases[i].code ||
		    !strstr(err.msg, cases[i].text))
			fail_msg("case %zu: %d %s", i, err.code, err.msg);
		if (cases[i].code) {
			assert_null(found.snapshot);
			continue;
		}
		assert_string_equal(found.name, "snap");
		assert_string_equal(found.handle, "handle");
		assert_string_equal(found.driver, "drv");
		assert_string_equal(found.volume_handle, "vol");
	}
}

static void a_wanted_driver_is_checked_before_readiness(void **state)
{
	struct objects objects = {SNAPSHOT(BOUND), CONTENT(OURS, "null"), 0};
	struct kube_snapshot found = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_code(resolve(&objects, "other", &found, &err), CAIRN_INVALID);
	assert_code(resolve(&objects, "drv", &found, &err), CAIRN_UNAVAILABLE);
	objects.content = CONTENT(OURS, READY);
	assert_ok(resolve(&objects, "drv", &found, &err), &err);
	kube_snapshot_done(&found);
}

static void a_read_that_fails_keeps_its_code(void **state)
{
	struct objects objects = {.fail = CAIRN_DENIED};
	struct kube_snapshot found = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_code(resolve(&objects, NULL, &found, &err), CAIRN_DENIED);
	assert_string_equal(err.msg, "read failed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_has_a_handle_only_when_every_rule_holds),
		cmocka_unit_test(a_wanted_driver_is_checked_before_readiness),
		cmocka_unit_test(a_read_that_fails_keeps_its_code),
	};

	return cmocka_run_group_tests_name("kube/snapshot", tests, NULL, NULL);
}
