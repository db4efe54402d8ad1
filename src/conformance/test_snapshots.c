/* SPDX-License-Identifier: Apache-2.0 */

/* What the controller reports about snapshots: backup software finds them this way. */

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "conformance/delta_check.h"
#include "csi_controller.pb-c.h"
#include "proto/message.h"

#define PAGES_MAX 1000U

typedef Csi__V1__ListSnapshotsResponse list_t;

struct search {
	const struct snapshot *wanted[4];
	unsigned found[4];
};

static void test_snapshots_look(struct search *s, const list_t *page)
{
	for (size_t i = 0; i < page->n_entries; i++) {
		const Csi__V1__Snapshot *listed = page->entries[i]->snapshot;

		for (size_t k = 0; listed && k < 4; k++)
			s->found[k] += strcmp(listed->snapshot_id, s->wanted[k]->id) == 0;
	}
}

/* Reads one page; `token` receives that of the next. */
static int list_page(struct target *t, const char *volume, struct search *s, char *token,
		     size_t cap, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	const list_t *page;
	int rc;

	conformance_request_add_string(&request, 2, token);
	conformance_request_add_string(&request, 3, volume);
	conformance_request_add_map(&request, 5, &t->secrets);
	rc = conformance_target_unary(t, "/csi.v1.Controller/ListSnapshots", &request,
				      &csi__v1__list_snapshots_response__descriptor, &message, err);
	if (rc)
		return rc;
	page = (const void *)message;
	test_snapshots_look(s, page);
	if (strlen(page->next_token) >= cap)
		return cairn_err_set(err, CAIRN_INTERNAL, "ListSnapshots: an endless token");
	memcpy(token, page->next_token, strlen(page->next_token) + 1);
	return 0;
}

static void test_snapshots_listed(struct suite *suite, struct verdict *v, int arg)
{
	struct scene *scene = &suite->scene;
	struct cairn_err err = {0};
	struct search s;
	char token[4096] = "";
	unsigned pages = 0;
	int rc = 0;

	(void)arg;
	if (!suite->target.can_list_snapshots) {
		conformance_verdict_skip(v, "not offered: LIST_SNAPSHOTS");
		return;
	}
	if (!conformance_check_main(suite, v))
		return;
	s = (struct search){.wanted = {scene->empty, scene->first, scene->second, scene->same}};
	do
		rc = list_page(&suite->target, scene->volume->id, &s, token, sizeof(token), &err);
	while (!rc && token[0] && ++pages < PAGES_MAX);
	if (rc)
		conformance_verdict_fail(v, "%s", err.msg);
	for (size_t k = 0; !rc && k < 4; k++)
		if (s.found[k] != 1)
			conformance_verdict_fail(
				v, "ListSnapshots of the volume lists snapshot '%s' %u times",
				s.wanted[k]->name, s.found[k]);
}

/* GetSnapshot; the caller owns the response. */
static int test_snapshots_get(struct target *t, const char *id, ProtobufCMessage **ret,
			      struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_string(&request, 1, id);
	conformance_request_add_map(&request, 2, &t->secrets);
	return conformance_target_unary(t, "/csi.v1.Controller/GetSnapshot", &request,
					&csi__v1__get_snapshot_response__descriptor, ret, err);
}

static void get_without_id(struct suite *suite, struct verdict *v, int arg)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	struct cairn_err err = {0};
	int rc;

	(void)arg;
	if (!suite->target.can_get_snapshot) {
		conformance_verdict_skip(v, "not offered: GET_SNAPSHOT");
		return;
	}
	rc = test_snapshots_get(&suite->target, "", &message, &err);
	if (rc != CAIRN_INVALID)
		conformance_verdict_fail(
			v, "GetSnapshot without an id: %s; INVALID_ARGUMENT was expected",
			cairn_code_name(rc));
}

/* A member of a group, read alone, must contain its group's id. */
static void check_member(struct suite *suite, struct verdict *v, const struct group *g)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__Snapshot *listed;
	struct cairn_err err = {0};

	if (!suite->target.can_get_snapshot)
		return;
	if (test_snapshots_get(&suite->target, g->member, &message, &err)) {
		conformance_verdict_fail(v, "GetSnapshot of a group's member: %s", err.msg);
		return;
	}
	listed = ((const Csi__V1__GetSnapshotResponse *)(const void *)message)->snapshot;
	if (!listed || strcmp(listed->group_snapshot_id, g->id) != 0)
		conformance_verdict_fail(v,
					 "GetSnapshot of a group's member does not name the group");
}

static void group_kept(struct suite *suite, struct verdict *v, int arg)
{
	const struct group *g = &suite->scene.group;
	struct listing_request r = {0};
	struct cairn_err err = {0};
	struct listing l;

	(void)arg;
	if (!suite->target.can_group) {
		conformance_verdict_skip(v, "not offered: group snapshots");
		return;
	}
	if (conformance_scene_group(&suite->scene, &err)) {
		conformance_verdict_fail(v, "a group snapshot cannot be made: %s", err.msg);
		return;
	}
	conformance_group_check(&suite->target, v, g, true);
	conformance_group_check(&suite->target, v, g, false);
	check_member(suite, v, g);
	r.target = g->member;
	conformance_check_get(suite, v, &r, &l);
	conformance_listing_free(&l);
}

const struct suite_test suite_snapshot_tests[] = {
	{"snapshots.listed-by-volume", "controller", test_snapshots_listed, 0},
	{"snapshots.get-without-id", "controller", get_without_id, 0},
	{"snapshots.group-kept", "controller", group_kept, 0},
	{.name = NULL},
};
