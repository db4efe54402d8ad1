/* SPDX-License-Identifier: Apache-2.0 */

/* The listing of a snapshot does not depend on later changes of other objects. These tests
 * come last, because they delete objects. */

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "conformance/delta_check.h"

/* The listings before and after `change` must be the same. */
static void test_lifetime_around(struct suite *suite, struct verdict *v,
				 void (*change)(struct suite *suite, struct verdict *v))
{
	struct listing before[CHECK_PAIRS] = {{0}};
	bool ok = conformance_check_main(suite, v);

	for (int i = 0; ok && i < CHECK_PAIRS; i++) {
		struct listing_request r = conformance_check_request(suite, (enum check_pair)i);

		ok = conformance_check_get(suite, v, &r, &before[i]);
	}
	if (ok)
		change(suite, v);
	for (int i = 0; ok && v->state == VERDICT_PASS && i < CHECK_PAIRS; i++) {
		struct listing_request r = conformance_check_request(suite, (enum check_pair)i);
		struct listing after;

		if (conformance_check_get(suite, v, &r, &after))
			conformance_check_same(suite, v, &before[i], &after, 0);
		conformance_listing_free(&after);
	}
	for (int i = 0; i < CHECK_PAIRS; i++)
		conformance_listing_free(&before[i]);
}

static void test_lifetime_disturb(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (conformance_scene_disturb(&suite->scene, &err))
		conformance_verdict_fail(v, "%s", err.msg);
}

static void test_lifetime_writes(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	test_lifetime_around(suite, v, test_lifetime_disturb);
}

static void test_lifetime_restore(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};
	struct volume *restored;
	int rc = conformance_scene_restore(&suite->scene, suite->scene.second, &restored, &err);

	if (rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_INVALID)
		conformance_verdict_skip(v, "no volume can be made from a snapshot: %s", err.msg);
	else if (rc)
		conformance_verdict_fail(v, "a volume cannot be made from a snapshot: %s", err.msg);
}

static void while_restored(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	test_lifetime_around(suite, v, test_lifetime_restore);
}

static void test_lifetime_unpublish(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (conformance_volume_unpublish(&suite->target, suite->scene.volume, &err))
		conformance_verdict_fail(v, "%s", err.msg);
}

static void not_published(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	test_lifetime_around(suite, v, test_lifetime_unpublish);
}

/* Deletes `empty` and requests a delta from it. A driver may report that it needs the
 * base; if it answers, the answer must be correct. */
static void base_deleted(struct suite *suite, struct verdict *v, int arg)
{
	cairn_auto_free char *id = NULL;
	struct listing_request r = {0};
	struct cairn_err err = {0};
	struct listing l;

	(void)arg;
	if (!conformance_check_main(suite, v))
		return;
	id = cairn_strdup(suite->scene.empty->id ? suite->scene.empty->id : "");
	if (!id || conformance_snapshot_remove(&suite->target, suite->scene.empty, &err)) {
		conformance_verdict_fail(v, "the base snapshot cannot be deleted: %s", err.msg);
		return;
	}
	r.base = id;
	r.target = suite->scene.second->id;
	conformance_listing_get(&suite->target, &r, &l);
	if (l.code == CAIRN_NOT_FOUND || l.code == CAIRN_PRECONDITION)
		conformance_verdict_skip(v, "not offered: the driver needs the base (%s)",
					 cairn_code_name(l.code));
	else if (l.code != 0)
		conformance_verdict_fail(
			v, "%s: %s: %s; OK, NOT_FOUND or FAILED_PRECONDITION was expected", l.label,
			cairn_code_name(l.code), l.err.msg);
	else
		conformance_check_covers(suite, v, &l, SCENE_WRITTEN | SCENE_NEW, false);
	conformance_listing_free(&l);
}

static void delete_empty(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (conformance_snapshot_remove(&suite->target, suite->scene.empty, &err))
		conformance_verdict_fail(v, "a snapshot cannot be deleted: %s", err.msg);
}

static void older_deleted(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	test_lifetime_around(suite, v, delete_empty);
}

/* A snapshot whose volume was deleted keeps its metadata. */
static void volume_deleted(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r = {0};
	struct cairn_err err = {0};
	struct listing before = {0}, after = {0};
	struct listing_range gap;
	int rc = conformance_scene_other(&suite->scene, &err);

	(void)arg;
	if (!rc)
		rc = conformance_volume_unpublish(&suite->target, suite->scene.other, &err);
	if (rc) {
		conformance_verdict_fail(v, "%s", err.msg);
		return;
	}
	r.target = suite->scene.of_other->id;
	if (conformance_check_get(suite, v, &r, &before)) {
		rc = conformance_volume_delete(&suite->target, suite->scene.other, &err);
		if (rc == CAIRN_PRECONDITION)
			conformance_verdict_skip(v, "the driver keeps a volume that has snapshots");
		else if (rc)
			conformance_verdict_fail(v, "%s", err.msg);
		else if (conformance_check_get(suite, v, &r, &after) &&
			 conformance_listing_missing(&before, &after, 0, UINT64_MAX, &gap))
			conformance_verdict_fail(v, "%s: byte %" PRIu64 " is missing now",
						 after.label, gap.start);
	}
	conformance_listing_free(&before);
	conformance_listing_free(&after);
}

const struct suite_test suite_lifetime_tests[] = {
	{"lifetime.volume-written-to", "practice", test_lifetime_writes, 0},
	{"lifetime.restored-volume-in-use", "practice", while_restored, 0},
	{"lifetime.volume-not-published", "practice", not_published, 0},
	{"lifetime.base-deleted", "errors", base_deleted, 0},
	{"lifetime.older-snapshot-deleted", "practice", older_deleted, 0},
	{"lifetime.volume-deleted", "practice", volume_deleted, 0},
	{.name = NULL},
};
