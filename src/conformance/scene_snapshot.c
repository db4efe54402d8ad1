/* SPDX-License-Identifier: Apache-2.0 */

#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "conformance/driver_target.h"
#include "conformance/scene_volume.h"
#include "csi_controller.pb-c.h"
#include "proto/message.h"

#define READY_POLL_MS 100

/* One CreateSnapshot: repeated under the same name it reports the progress. */
static int scene_snapshot_call_create(struct target *t, struct snapshot *s, bool *ret_ready,
				      struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__Snapshot *made;
	int rc;

	conformance_request_add_string(&request, 1, s->volume_id);
	conformance_request_add_string(&request, 2, s->name);
	conformance_request_add_map(&request, 3, &t->secrets);
	conformance_request_add_map(&request, 4, &t->snapshot_parameters);
	s->tried = true;
	rc = conformance_target_unary(t, "/csi.v1.Controller/CreateSnapshot", &request,
				      &csi__v1__create_snapshot_response__descriptor, &message,
				      err);
	s->tried = rc == 0 || conformance_target_unsure(rc);
	if (rc)
		return rc;
	made = ((const Csi__V1__CreateSnapshotResponse *)(const void *)message)->snapshot;
	if (!made || !made->snapshot_id[0])
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "CreateSnapshot: OK without a snapshot id");
	s->size = made->size_bytes > 0 ? (uint64_t)made->size_bytes : 0;
	*ret_ready = made->ready_to_use;
	if (!s->id)
		s->id = cairn_strdup(made->snapshot_id);
	return s->id ? 0 : cairn_err_nomem(err, "snapshot");
}

int conformance_snapshot_create(struct target *t, struct snapshot *s, struct cairn_err *err)
{
	uint64_t end = cairn_monotonic_ns() + t->timeout_ms * CAIRN_NS_PER_MS;
	bool ready = false;
	int rc = scene_snapshot_call_create(t, s, &ready, err);

	while (!rc && !ready) {
		if (cairn_monotonic_ns() > end)
			return cairn_err_set(err, CAIRN_DEADLINE, "snapshot '%s' is not ready yet",
					     s->id);
		cairn_sleep_ms(READY_POLL_MS);
		rc = scene_snapshot_call_create(t, s, &ready, err);
	}
	return rc;
}

int conformance_snapshot_remove(struct target *t, struct snapshot *s, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	proto_auto_message ProtobufCMessage *message = NULL;
	bool ready;
	int rc = 0;

	if (!s->id && s->tried)
		rc = scene_snapshot_call_create(t, s, &ready, err);
	if (rc || !s->id)
		return rc;
	conformance_request_add_string(&request, 1, s->id);
	conformance_request_add_map(&request, 2, &t->secrets);
	rc = conformance_target_unary(t, "/csi.v1.Controller/DeleteSnapshot", &request,
				      &csi__v1__delete_snapshot_response__descriptor, &message,
				      err);
	if (!rc) {
		free(s->id);
		s->id = NULL;
		s->tried = false;
	}
	return rc;
}

void conformance_snapshot_free(struct snapshot *s)
{
	free(s->name);
	free(s->volume_id);
	free(s->id);
	*s = (struct snapshot){0};
}
