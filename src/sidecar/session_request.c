/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/session_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "proto/message.h"
#include "sidecar/sidecar_request.h"
#include "snapshot_session.pb-c.h"

static char *session_request_copy(const char *text)
{
	return cairn_strdup(text ? text : "");
}

static void session_request_take_allocated(ProtobufCMessage *message,
					   struct sidecar_session_request *r)
{
	GetAllocatedRequest *m = (void *)message;

	r->token = session_request_copy(m->session_token);
	r->volume = session_request_copy(m->volume_id);
	r->base = session_request_copy("");
	r->target = session_request_copy(m->snapshot);
	r->starting_offset = m->starting_offset;
	r->max_results = m->max_results;
	explicit_bzero(m->session_token, strlen(m->session_token));
}

static void session_request_take_delta(ProtobufCMessage *message, struct sidecar_session_request *r)
{
	GetDeltaRequest *m = (void *)message;

	r->token = session_request_copy(m->session_token);
	r->volume = session_request_copy(m->volume_id);
	r->base = session_request_copy(m->base_snapshot);
	r->target = session_request_copy(m->target_snapshot);
	r->starting_offset = m->starting_byte_offset;
	r->max_results = m->max_results;
	explicit_bzero(m->session_token, strlen(m->session_token));
}

static int session_request_check(const struct sidecar_session_request *r, struct cairn_err *err)
{
	if (!r->token || !r->volume || !r->base || !r->target)
		return cairn_err_nomem(err, "request");
	if (!r->token[0])
		return cairn_err_set(err, CAIRN_INVALID, "session_token is missing");
	if (!r->volume[0])
		return cairn_err_set(err, CAIRN_INVALID, "volume_id is missing");
	if (r->delta && !r->base[0])
		return cairn_err_set(err, CAIRN_INVALID, "base_snapshot is missing");
	if (!r->target[0])
		return cairn_err_set(err, CAIRN_INVALID, "%s is missing",
				     r->delta ? "target_snapshot" : "snapshot");
	return 0;
}

int sidecar_session_request_read(bool delta, const uint8_t *data, size_t n,
				 struct sidecar_session_request *ret, struct cairn_err *err)
{
	cairn_cleanup(sidecar_session_request_done) struct sidecar_session_request own = {
		.delta = delta};
	proto_auto_message ProtobufCMessage *message = NULL;
	int rc = proto_unpack(delta ? &get_delta_request__descriptor
				    : &get_allocated_request__descriptor,
			      data, n, &message, err);

	if (rc)
		return rc;
	if (delta)
		session_request_take_delta(message, &own);
	else
		session_request_take_allocated(message, &own);
	rc = session_request_check(&own, err);
	if (rc)
		return rc;
	*ret = own;
	own = (struct sidecar_session_request){0};
	return 0;
}

void sidecar_session_request_done(struct sidecar_session_request *r)
{
	if (r->token)
		explicit_bzero(r->token, strlen(r->token));
	free(r->token);
	free(r->volume);
	free(r->base);
	free(r->target);
	*r = (struct sidecar_session_request){0};
}

int sidecar_session_request_pack(const struct sidecar_session_request *request,
				 const struct sidecar_session_handles *handles,
				 struct cairn_buf *out, struct cairn_err *err)
{
	GetAllocatedRequest allocated;
	GetDeltaRequest delta;

	get_allocated_request__init(&allocated);
	allocated.session_token = proto_text(request->token);
	allocated.volume_id = proto_text(handles->volume);
	allocated.snapshot = proto_text(handles->target);
	allocated.starting_offset = request->starting_offset;
	allocated.max_results = request->max_results;
	get_delta_request__init(&delta);
	delta.session_token = proto_text(request->token);
	delta.volume_id = proto_text(handles->volume);
	delta.base_snapshot = proto_text(handles->base);
	delta.target_snapshot = proto_text(handles->target);
	delta.starting_byte_offset = request->starting_offset;
	delta.max_results = request->max_results;
	proto_pack(request->delta ? &delta.base : &allocated.base, out);
	if (cairn_buf_failed(out))
		return cairn_err_nomem(err, "request");
	return 0;
}

int sidecar_session_request_translate(const struct sidecar_session_request *request,
				      const struct sidecar_session_handles *handles,
				      struct cairn_buf *out, struct cairn_err *err)
{
	struct sidecar_request shipped = {
		.delta = request->delta,
		.base = proto_text(handles->base),
		.starting_offset = (int64_t)request->starting_offset,
	};

	if (request->starting_offset > INT64_MAX)
		return cairn_err_set(err, CAIRN_RANGE,
				     "the starting offset is beyond the end of the volume");
	/* A larger value has no effect on the driver anyway. */
	shipped.max_results =
		request->max_results > INT32_MAX ? INT32_MAX : (int32_t)request->max_results;
	return sidecar_request_pack(&shipped, handles->target, handles->secret, out, err);
}
