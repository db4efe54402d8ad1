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
static void around(struct suite *suite, struct verdict *v,
		   void (*change)(struct suite *suite, struct verdict *v))
{
	struct listing before[CHECK_PAIRS] = {{0}};
	bool ok = check_main(suite, v);

	for (int i = 0; ok && i < CHECK_PAIRS; i++) {
		struct listing_request r = check_request(suite, (enum check_pair)i);

		ok = check_get(suite, v, &r, &before[i]);
	}
	if (ok)
		change(suite, v);
	for (int i = 0; ok && v->state == VERDICT_PASS && i < CHECK_PAIRS; i++) {
		struct listing_request r = check_request(suite, (enum check_pair)i);
		struct listing after;

		if (check_get(suite, v, &r, &after))
			check_same(suite, v, &before[i], &after, 0);
		listing_free(&after);
	}
	for (int i = 0; i < CHECK_PAIRS; i++)
		listing_free(&before[i]);
}

static void disturb(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (scene_disturb(&suite->scene, &err))
		verdict_fail(v, "%s", err.msg);
}

static void writes(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	around(suite, v, disturb);
}

static void restore(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};
	struct volume *restored;
	int rc = scene_restore(&suite->scene, suite->scene.second, &restored, &err);

	if (rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_INVALID)
		verdict_skip(v, "no volume can be made from a snapshot: %s", err.msg);
	else if (rc)
		verdict_fail(v, "a volume cannot be made from a snapshot: %s", err.msg);
}

static void while_restored(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	around(suite, v, restore);
}

static void unpublish(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (volume_unpublish(&suite->target, suite->scene.volume, &err))
		verdict_fail(v, "%s", err.msg);
}

static void not_published(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	around(suite, v, unpublish);
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
	if (!check_main(suite, v))
		return;
	id = cairn_strdup(suite->scene.empty->id ? suite->scene.empty->id : "");
	if (!id || snapshot_remove(&suite->target, suite->scene.empty, &err)) {
		verdict_fail(v, "the base snapshot cannot be deleted: %s", err.msg);
		return;
	}
	r.base = id;
	r.target = suite->scene.second->id;
	listing_get(&suite->target, &r, &l);
	if (l.code == CAIRN_NOT_FOUND || l.code == CAIRN_PRECONDITION)
		verdict_skip(v, "not offered: the driver needs the base (%s)",
			     cairn_code_name(l.code));
	else if (l.code != 0)
		verdict_fail(v, "%s: %s: %s; OK, NOT_FOUND or FAILED_PRECONDITION was expected",
			     l.label, cairn_code_name(l.code), l.err.msg);
	else
		check_covers(suite, v, &l, SCENE_WRITTEN | SCENE_NEW, false);
	listing_free(&l);
}

static void delete_empty(struct suite *suite, struct verdict *v)
{
	struct cairn_err err = {0};

	if (snapshot_remove(&suite->target, suite->scene.empty, &err))
		verdict_fail(v, "a snapshot cannot be deleted: %s", err.msg);
}

static void older_deleted(struct suite *suite, struct verdict *v, int arg)
{
	(void)arg;
	around(suite, v, delete_empty);
}

/* A snapshot whose volume was deleted keeps its metadata. */
static void volume_deleted(struct suite *suite, struct verdict *v, int arg)
{
	struct listing_request r = {0};
	struct cairn_err err = {0};
	struct listing before = {0}, after = {0};
	struct listing_range gap;
	int rc = scene_other(&suite->scene, &err);

	(void)arg;
	if (!rc)
		rc = volume_unpublish(&suite->target, suite->scene.other, &err);
	if (rc) {
		verdict_fail(v, "%s", err.msg);
		return;
	}
	r.target = suite->scene.of_other->id;
	if (check_get(suite, v, &r, &before)) {
		rc = volume_delete(&suite->target, suite->scene.other, &err);
		if (rc == CAIRN_PRECONDITION)
			verdict_skip(v, "the driver keeps a volume that has snapshots");
		else if (rc)
			verdict_fail(v, "%s", err.msg);
		else if (check_get(suite, v, &r, &after) &&
			 listing_missing(&before, &after, 0, UINT64_MAX, &gap))
			verdict_fail(v, "%s: byte %" PRIu64 " is missing now", after.label,
				     gap.start);
	}
	listing_free(&before);
	listing_free(&after);
}

const struct suite_test suite_lifetime_tests[] = {
	{"lifetime.volume-written-to", "practice", writes, 0},
	{"lifetime.restored-volume-in-use", "practice", while_restored, 0},
	{"lifetime.volume-not-published", "practice", not_published, 0},
	{"lifetime.base-deleted", "errors", base_deleted, 0},
	{"lifetime.older-snapshot-deleted", "practice", older_deleted, 0},
	{"lifetime.volume-deleted", "practice", volume_deleted, 0},
	{.name = NULL},
};
