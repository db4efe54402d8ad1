/* SPDX-License-Identifier: Apache-2.0 */

#include "scripted_service.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_server.h"
#include "proto/block_metadata.h"
#include "proto/message.h"
#include "snapshotmetadata.pb-c.h"

struct asked {
	bool delta;
	const char *token, *namespace_name, *base, *snapshot;
	uint64_t offset;
	uint32_t max_results;
};

void scripted_service_init(struct scripted_service *service)
{
	*service = (struct scripted_service){
		.blocks = 1000,
		.stride = 8192,
		.length = 4096,
		.per_message = 10,
		.type = PROTO_BLOCK_VARIABLE,
	};
	pthread_mutex_init(&service->lock, NULL);
}

uint64_t scripted_service_capacity(const struct scripted_service *service)
{
	return service->blocks * service->stride;
}

static const struct scripted_step *note(struct scripted_service *s, const struct asked *asked)
{
	static const struct scripted_step right = {.messages = SCRIPTED_ALL};
	unsigned i = atomic_fetch_add(&s->streams, 1);

	cairn_scoped_lock(&s->lock);
	if (i < SCRIPTED_SEEN_MAX) {
		s->offsets[i] = asked->offset;
		s->deltas[i] = asked->delta;
	}
	snprintf(s->token, sizeof(s->token), "%s", asked->token);
	snprintf(s->namespace_name, sizeof(s->namespace_name), "%s", asked->namespace_name);
	snprintf(s->snapshot, sizeof(s->snapshot), "%s", asked->snapshot);
	snprintf(s->base, sizeof(s->base), "%s", asked->base);
	if (s->log) {
		fprintf(s->log, "stream %" PRIu64 " %s %s %s %s\n", asked->offset,
			asked->delta ? "delta" : "allocated", asked->snapshot,
			*asked->base ? asked->base : "-", *asked->token ? asked->token : "-");
		fflush(s->log);
	}
	if (s->n_steps == 0)
		return &right;
	return &s->steps[i < s->n_steps ? i : s->n_steps - 1];
}

/* The first block that ends after `offset`. */
static uint64_t first_block(const struct scripted_service *s, uint64_t offset)
{
	uint64_t i = offset / s->stride;

	return i * s->stride + s->length > offset ? i : i + 1;
}

/* One message from block *at on; moves it. */
static int send_message(const struct scripted_service *s, struct net_call *call,
			const struct scripted_step *step, const struct asked *asked, uint64_t *at,
			struct cairn_err *err)
{
	uint32_t most = asked->max_results && asked->max_results < s->per_message
				? asked->max_results
				: s->per_message;
	uint64_t capacity = scripted_service_capacity(s);
	uint32_t type = s->type;
	struct proto_block_writer w;
	bool first = *at == first_block(s, asked->offset);
	uint8_t *out;
	int rc = net_call_reserve(call, PROTO_BLOCK_ROOM(most), &out, err);

	if (rc)
		return rc;
	if (step->fault == SCRIPTED_TYPE)
		type = PROTO_BLOCK_FIXED + PROTO_BLOCK_VARIABLE - type;
	if (step->fault == SCRIPTED_CAPACITY)
		capacity *= 2;
	proto_block_begin(&w, out, PROTO_BLOCK_ROOM(most), (enum proto_block_type)type, capacity);
	for (uint32_t i = 0; i < most && *at < s->blocks; i++, (*at)++) {
		uint64_t offset = *at * s->stride, length = s->length;

		if (step->fault == SCRIPTED_OVERLAP && i == 1)
			offset -= s->stride - 1;
		if (step->fault == SCRIPTED_STRADDLE && first && i == 0) {
			length += offset - (asked->offset - 1);
			offset = asked->offset - 1;
		}
		(void)proto_block_add(&w, offset, length);
	}
	net_call_commit(call, proto_block_len(&w), false);
	return 0;
}

static int announce(const struct scripted_service *s, struct net_call *call, struct cairn_err *err)
{
	uint8_t out[PROTO_BLOCK_ROOM(1)];
	struct proto_block_writer w;

	proto_block_begin(&w, out, sizeof(out), (enum proto_block_type)s->type,
			  scripted_service_capacity(s));
	return net_call_send(call, out, proto_block_len(&w), err);
}

static int hang(struct net_call *call, struct cairn_err *err)
{
	int rc;

	do {
		rc = net_call_sleep(call, 1000, err);
	} while (rc == 0);
	return rc;
}

static int answer(struct scripted_service *s, struct net_call *call, const struct asked *asked,
		  struct cairn_err *err)
{
	const struct scripted_step *step = note(s, asked);
	uint64_t at = first_block(s, asked->offset);
	int rc = 0;

	if (step->token && strcmp(step->token, asked->token) != 0)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "unauthenticated user");
	if (step->fault == SCRIPTED_HANG)
		return hang(call, err);
	if (step->fault == SCRIPTED_GARBAGE)
		rc = net_call_send(call, "\x1a\x7f garbage", 10, err);
	if (asked->offset > scripted_service_capacity(s))
		return cairn_err_set(err, CAIRN_RANGE, "starting offset beyond the volume");
	if (s->announce && step->messages > 0)
		rc = announce(s, call, err);
	for (uint64_t n = 0; !rc && n < step->messages && at < s->blocks; n++)
		rc = send_message(s, call, step, asked, &at, err);
	if (!rc && step->code)
		rc = cairn_err_set(err, step->code, "as the script says");
	return rc;
}

static int allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Snapshotmetadata__GetMetadataAllocatedRequest *m;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc >= 0)
		rc = proto_unpack(&snapshotmetadata__get_metadata_allocated_request__descriptor,
				  data, n, &message, err);
	if (rc < 0)
		return rc;
	m = (const void *)message;
	return answer(arg, call,
		      &(struct asked){.token = m->security_token,
				      .namespace_name = m->namespace_,
				      .snapshot = m->snapshot_name,
				      .base = "",
				      .offset = (uint64_t)m->starting_offset,
				      .max_results = (uint32_t)m->max_results},
		      err);
}

static int delta(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Snapshotmetadata__GetMetadataDeltaRequest *m;
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc >= 0)
		rc = proto_unpack(&snapshotmetadata__get_metadata_delta_request__descriptor, data,
				  n, &message, err);
	if (rc < 0)
		return rc;
	m = (const void *)message;
	return answer(arg, call,
		      &(struct asked){.delta = true,
				      .token = m->security_token,
				      .namespace_name = m->namespace_,
				      .snapshot = m->target_snapshot_name,
				      .base = m->base_snapshot_id,
				      .offset = (uint64_t)m->starting_offset,
				      .max_results = (uint32_t)m->max_results},
		      err);
}

int scripted_service_add(struct scripted_service *service, struct net_server *server,
			 struct cairn_err *err)
{
	const struct net_method methods[] = {
		{"/snapshotmetadata.SnapshotMetadata/GetMetadataAllocated", NET_SERVER_STREAM,
		 allocated, service},
		{"/snapshotmetadata.SnapshotMetadata/GetMetadataDelta", NET_SERVER_STREAM, delta,
		 service},
	};

	return net_server_add(server, methods, 2, err);
}
