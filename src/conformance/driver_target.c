/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/driver_target.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/grpc/grpc_client.h"
#include "proto/message.h"

/* Smaller than a stream of a few thousand tuples, but large enough for any server to make
 * progress. */
#define NARROW_WINDOW 64U

/* Larger than any driver should send, so that the suite can receive and report it. */
#define MESSAGE_MAX (32U << 20)

#define ABORTED_PAUSE_MS 50

int conformance_target_init(struct target *t, const char *endpoint, uint64_t timeout_ms,
			    struct cairn_err *err)
{
	struct net_channel_options options = {.target = endpoint, .message_max = MESSAGE_MAX};
	int rc;

	pthread_mutex_init(&t->lock, NULL);
	t->timeout_ms = timeout_ms;
	rc = net_channel_new(&options, &t->channel, err);
	if (!rc) {
		options.stream_window = NARROW_WINDOW;
		options.recv_bytes = 1;
		rc = net_channel_new(&options, &t->narrow, err);
	}
	return rc ? rc : net_channel_connect(t->channel, timeout_ms, err);
}

void conformance_target_done(struct target *t)
{
	net_channel_free(t->channel);
	net_channel_free(t->narrow);
	conformance_request_map_done(&t->parameters);
	conformance_request_map_done(&t->snapshot_parameters);
	conformance_request_map_done(&t->secrets);
	conformance_request_map_done(&t->segments);
	free(t->name);
	free(t->version);
	free(t->node_id);
	pthread_mutex_destroy(&t->lock);
}

/* False if the call must not start: there are too many, or the run was interrupted. */
static bool driver_target_enlist(struct target *t, struct net_rpc *rpc)
{
	cairn_scoped_lock(&t->lock);
	if (t->stopped && !t->cleaning)
		return false;
	for (size_t i = 0; i < TARGET_CALLS_MAX; i++) {
		if (!t->calls[i]) {
			t->calls[i] = rpc;
			return true;
		}
	}
	return false;
}

int conformance_target_open(struct target *t, const struct target_call *call,
			    const struct cairn_buf *request, struct net_rpc **ret,
			    struct cairn_err *err)
{
	struct net_rpc_options options = {
		.path = call->path,
		.timeout_ms = call->timeout_ms ? call->timeout_ms : t->timeout_ms,
		.grace_ms = call->grace_ms,
	};
	struct net_rpc *rpc = NULL;
	int rc;

	if (cairn_buf_failed(request))
		return cairn_err_set(err, CAIRN_NO_SPACE, "the request is too large");
	rc = net_rpc_start(call->narrow ? t->narrow : t->channel, &options, &rpc, err);
	if (rc)
		return rc;
	if (!driver_target_enlist(t, rpc)) {
		net_rpc_free(rpc);
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	}
	/* Receiving reports the result of the call. */
	net_rpc_send(rpc, request->data, request->len, true, NULL);
	*ret = rpc;
	return 0;
}

void conformance_target_close(struct target *t, struct net_rpc *rpc)
{
	if (!rpc)
		return;
	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < TARGET_CALLS_MAX; i++) {
		if (t->calls[i] == rpc)
			t->calls[i] = NULL;
	}
	pthread_mutex_unlock(&t->lock);
	net_rpc_free(rpc);
}

bool conformance_target_unsure(int code)
{
	return code == CAIRN_CANCELLED || code == CAIRN_DEADLINE || code == CAIRN_UNAVAILABLE ||
	       code == CAIRN_UNKNOWN;
}

void conformance_target_stop(struct target *t, int signo)
{
	cairn_scoped_lock(&t->lock);
	t->stopped = signo;
	for (size_t i = 0; i < TARGET_CALLS_MAX && !t->cleaning; i++) {
		if (t->calls[i])
			net_rpc_cancel(t->calls[i]);
	}
}

static int receive_one(struct net_rpc *rpc, const ProtobufCMessageDescriptor *type,
		       ProtobufCMessage **ret, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const uint8_t *data;
	size_t n;
	int rc = net_rpc_recv(rpc, &data, &n, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_INTERNAL, "OK without a response");
	if (rc > 0)
		rc = proto_unpack(type, data, n, &message, err);
	if (rc < 0)
		return rc;
	rc = net_rpc_recv(rpc, &data, &n, err);
	if (rc < 0)
		return rc;
	*ret = cairn_take(message);
	return 0;
}

int conformance_target_unary(struct target *t, const char *path, const struct cairn_buf *request,
			     const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret,
			     struct cairn_err *err)
{
	uint64_t end = cairn_monotonic_ns() + t->timeout_ms * CAIRN_NS_PER_MS;
	struct target_call call = {.path = path};
	int rc = CAIRN_ABORTED;

	while (rc == CAIRN_ABORTED && cairn_monotonic_ns() < end) {
		struct net_rpc *rpc = NULL;

		rc = conformance_target_open(t, &call, request, &rpc, err);
		if (!rc)
			rc = receive_one(rpc, type, ret, err);
		conformance_target_close(t, rpc);
		if (rc == CAIRN_ABORTED)
			cairn_sleep_ms(ABORTED_PAUSE_MS);
	}
	return rc ? cairn_err_wrap(err, "%s: %s", strrchr(path, '/') + 1, cairn_code_name(rc)) : 0;
}
