/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/group_scene.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "conformance/driver_target.h"
#include "conformance/test_verdict.h"
#include "csi_group.pb-c.h"
#include "proto/message.h"

#define READY_POLL_MS 100

/* The response of Create and of Get has the same one field. */
typedef Csi__V1__CreateVolumeGroupSnapshotResponse response_t;

static int group_scene_ask(struct target *t, const struct group *g, bool by_name,
			   ProtobufCMessage **ret, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);

	conformance_request_add_string(&request, 1, by_name ? g->name : g->id);
	conformance_request_add_string(&request, 2, by_name ? g->volume_id : g->member);
	conformance_request_add_map(&request, 3, &t->secrets);
	return conformance_target_unary(
		t,
		by_name ? "/csi.v1.GroupController/CreateVolumeGroupSnapshot"
			: "/csi.v1.GroupController/GetVolumeGroupSnapshot",
		&request, &csi__v1__create_volume_group_snapshot_response__descriptor, ret, err);
}

/* One CreateVolumeGroupSnapshot: repeated under the same name it reports the progress. */
static int group_scene_call_create(struct target *t, struct group *g, bool *ret_ready,
				   struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__VolumeGroupSnapshot *made;
	int rc = group_scene_ask(t, g, true, &message, err);

	g->tried = rc == 0 || conformance_target_unsure(rc);
	if (rc)
		return rc;
	made = ((const response_t *)(const void *)message)->group_snapshot;
	if (!made || !made->group_snapshot_id[0] || made->n_snapshots != 1 ||
	    !made->snapshots[0]->snapshot_id[0])
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "CreateVolumeGroupSnapshot: OK without the ids of a group of "
				     "one volume");
	*ret_ready = made->ready_to_use;
	if (!g->id)
		g->id = cairn_strdup(made->group_snapshot_id);
	if (!g->member)
		g->member = cairn_strdup(made->snapshots[0]->snapshot_id);
	return g->id && g->member ? 0 : cairn_err_nomem(err, "group");
}

int conformance_group_create(struct target *t, struct group *g, struct cairn_err *err)
{
	uint64_t end = cairn_monotonic_ns() + t->timeout_ms * CAIRN_NS_PER_MS;
	bool ready = false;
	int rc = group_scene_call_create(t, g, &ready, err);

	while (!rc && !ready) {
		if (cairn_monotonic_ns() > end)
			return cairn_err_set(err, CAIRN_DEADLINE, "group '%s' is not ready yet",
					     g->id);
		cairn_sleep_ms(READY_POLL_MS);
		rc = group_scene_call_create(t, g, &ready, err);
	}
	return rc;
}

int conformance_group_remove(struct target *t, struct group *g, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	bool ready;
	int rc = 0;

	if (!g->id && g->tried)
		rc = group_scene_call_create(t, g, &ready, err);
	if (rc || !g->id)
		return rc;
	conformance_request_add_string(&request, 1, g->id);
	conformance_request_add_string(&request, 2, g->member);
	conformance_request_add_map(&request, 3, &t->secrets);
	rc = conformance_target_unary(
		t, "/csi.v1.GroupController/DeleteVolumeGroupSnapshot", &request,
		&csi__v1__delete_volume_group_snapshot_response__descriptor, &message, err);
	if (!rc) {
		free(g->id);
		g->id = NULL;
		g->tried = false;
	}
	return rc;
}

void conformance_group_free(struct group *g)
{
	free(g->name);
	free(g->volume_id);
	free(g->id);
	free(g->member);
	*g = (struct group){0};
}

void conformance_group_check(struct target *t, struct verdict *v, const struct group *g,
			     bool by_name)
{
	const char *call = by_name ? "CreateVolumeGroupSnapshot again" : "GetVolumeGroupSnapshot";
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__VolumeGroupSnapshot *listed;
	struct cairn_err err = {0};

	if (group_scene_ask(t, g, by_name, &message, &err)) {
		conformance_verdict_fail(v, "%s: %s", call, err.msg);
		return;
	}
	listed = ((const response_t *)(const void *)message)->group_snapshot;
	if (!listed || strcmp(listed->group_snapshot_id, g->id) != 0 || listed->n_snapshots != 1 ||
	    strcmp(listed->snapshots[0]->snapshot_id, g->member) != 0)
		conformance_verdict_fail(v, "%s: not the group that was made", call);
	else if (strcmp(listed->snapshots[0]->group_snapshot_id, g->id) != 0)
		conformance_verdict_fail(v, "%s: the member's group_snapshot_id is '%s', not '%s'",
					 call, listed->snapshots[0]->group_snapshot_id, g->id);
}
