/* SPDX-License-Identifier: Apache-2.0 */

/* A call of the session flavour: its token selects a session, the session its snapshots,
 * and those the driver's handles.
 *
 * For a driver that implements the flavour, messages are passed through unchanged;
 * otherwise the driver is called in the shipped flavour and its answers are translated.
 */

#include <stdio.h>
#include <string.h>

#include "base/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/err_replace.h"
#include "base/log.h"
#include "kube/caller.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/relay.h"
#include "proto/block_metadata.h"
#include "proto/block_translate.h"
#include "sidecar/call_common.h"
#include "sidecar/driver_channel.h"
#include "sidecar/resolve.h"
#include "sidecar/route.h"
#include "sidecar/session_request.h"
#include "sidecar/sessions.h"
#include "sidecar/sidecar_impl.h"
#include "sidecar/sidecar_metrics.h"

#define SESSION_ALLOCATED_PATH "/SnapshotMetadata/GetAllocated"
#define SESSION_DELTA_PATH     "/SnapshotMetadata/GetDelta"

/* The label that the session controller sets. */
#define SESSION_UID_LABEL "cbt.storage.k8s.io/session-request-uid"

struct stream {
	struct sidecar *sidecar;
	struct net_call *call;
	struct sidecar_session_request request;
	struct kube_wait wait;
	const char *driver_name;
	json_t *session;
	struct kube_fair_pass place;
	struct sidecar_snapshot *base;
	struct sidecar_snapshot *target;
	struct proto_block_scan scan; /* of a stream that is translated */
	uint64_t messages;
	uint64_t bytes;
	bool allowed; /* the session covers the snapshots */
};

static void session_stream_done(struct stream *s)
{
	kube_fair_queue_leave(&s->place);
	kube_value_unrefp(&s->target);
	kube_value_unrefp(&s->base);
	json_decref(s->session);
	sidecar_session_request_done(&s->request);
}

static int session_stream_read_request(struct stream *s, bool delta, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc = sidecar_step_recv(s->call, &data, &n, err);

	return rc ? rc : sidecar_session_request_read(delta, data, n, &s->request, err);
}

static bool is_in_session(const struct stream *s, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach(kube_at(s->session, "spec", "snapshots"), i, one)
	{
		const char *text = json_string_value(one);

		if (text && strcmp(text, name) == 0)
			return true;
	}
	return false;
}

static int check_session(struct stream *s, struct cairn_err *err)
{
	json_t *found = NULL;
	int rc = sidecar_sessions_find(s->sidecar->options.sessions, s->request.token, &s->wait,
				       &found, err);

	if (rc)
		return rc;
	json_decref(s->session);
	s->session = found;
	net_call_trust(s->call);
	if (!is_in_session(s, s->request.target) ||
	    (s->request.delta && !is_in_session(s, s->request.base)))
		return cairn_err_set(
			err, CAIRN_DENIED, "the session is not for the VolumeSnapshot '%s'",
			!is_in_session(s, s->request.target) ? s->request.target : s->request.base);
	if (!s->driver_name)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the CSI driver is not yet ready");
	return 0;
}

/* A session does not contain its user, and a user may have any number of sessions, so
 * streams are counted by the sessions' namespace. After a wait the session is checked again,
 * because it may have ended meanwhile. */
static int session_stream_take_place(struct stream *s, struct cairn_err *err)
{
	const char *ns = kube_str(s->session, "spec", "snapshotNamespace");
	struct kube_digest who = kube_digest_of("session", ns ? ns : "", NULL);
	int rc = sidecar_step_place(s->sidecar, &who, &s->wait, &s->place, err);

	return !rc && s->place.waited ? check_session(s, err) : rc;
}

static int session_stream_find(struct stream *s, const char *name, struct sidecar_snapshot **ret,
			       struct cairn_err *err)
{
	const char *ns = kube_str(s->session, "spec", "snapshotNamespace");

	return sidecar_resolve_find(s->sidecar->names, s->driver_name, ns ? ns : "", name, &s->wait,
				    ret, err);
}

/* Resolves both snapshots, which must be of the requested volume. */
static int session_stream_find_names(struct stream *s, struct cairn_err *err)
{
	const char *volume = s->request.volume;
	int rc = session_stream_find(s, s->request.target, &s->target, err);

	if (!rc && s->request.delta)
		rc = session_stream_find(s, s->request.base, &s->base, err);
	if (rc)
		return rc;
	if (sidecar_route_is_remote(s->sidecar->route, s->target->node))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "VolumeSnapshot '%s' is on node '%.64s', and sessions are not "
				     "passed to other nodes",
				     s->request.target, s->target->node);
	if (s->target->volume && strcmp(volume, s->target->volume) != 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "VolumeSnapshot '%s' is not of the volume '%.64s'",
				     s->request.target, volume);
	if (s->base && s->base->volume && s->target->volume &&
	    strcmp(s->base->volume, s->target->volume) != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "VolumeSnapshots '%s' and '%s' are of two volumes",
				     s->request.base, s->request.target);
	return 0;
}

static int session_stream_start(struct stream *s, bool translated, struct net_rpc **ret,
				struct cairn_err *err)
{
	cairn_auto_secret_buf struct cairn_buf bytes = CAIRN_BUF_INIT(SIDECAR_DRIVER_REQUEST_MAX);
	bool delta = s->request.delta;
	struct sidecar_session_handles handles = {
		.volume = s->target->volume ? s->target->volume : s->request.volume,
		.base = s->base ? s->base->handle : "",
		.target = s->target->handle,
		.secret = s->target->secret,
	};
	const char *path = delta ? SESSION_DELTA_PATH : SESSION_ALLOCATED_PATH;
	int rc;

	if (translated) {
		path = delta ? SIDECAR_DRIVER_DELTA : SIDECAR_DRIVER_ALLOCATED;
		rc = sidecar_session_request_translate(&s->request, &handles, &bytes, err);
	} else {
		rc = sidecar_session_request_pack(&s->request, &handles, &bytes, err);
	}
	return rc ? rc : sidecar_step_driver(s->sidecar, s->call, path, &bytes, &s->wait, ret, err);
}

/* Relays the messages unchanged. */
static int session_stream_pass_through(struct stream *s, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_relay_options options = {.message_max = s->sidecar->options.message_max};
	struct net_relay_result result = {0};
	int rc = session_stream_start(s, false, &rpc, err);

	if (!rc)
		rc = net_relay_run(s->call, rpc, &options, &result, err);
	s->messages = result.messages;
	s->bytes = result.bytes;
	return rc;
}

static int send_translated(struct stream *s, const uint8_t *data, size_t n, struct cairn_err *err)
{
	uint8_t *at;
	size_t len;
	int rc = proto_block_scan(&s->scan, data, n, NULL, err);

	if (!rc)
		rc = net_call_reserve(s->call, n, &at, err);
	if (rc)
		return rc;
	if (!proto_block_translate(data, n, at, &len)) {
		net_call_commit_none(s->call);
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the CSI driver reports no type of block metadata");
	}
	net_call_commit(s->call, len, false);
	s->messages++;
	s->bytes += len;
	return 0;
}

static int session_stream_translate(struct stream *s, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	const uint8_t *data;
	size_t n;
	int rc = session_stream_start(s, true, &rpc, err);

	s->scan.starting_offset = s->request.starting_offset;
	s->scan.max_results = s->request.max_results;
	if (rc)
		return rc;
	while ((rc = net_rpc_recv(rpc, &data, &n, err)) == 1) {
		rc = send_translated(s, data, n, err);
		if (rc)
			return rc;
	}
	/* A cancelled call must not end with OK. */
	return rc ? rc : net_call_check(s->call);
}

/* Calls the driver in the session flavour first; a driver without it reports that before
 * any message. The result is remembered until the driver answers differently. */
static int session_stream_relay(struct stream *s, struct cairn_err *err)
{
	_Atomic int *flavour = &s->sidecar->session_flavour;
	int rc;

	if (atomic_load(flavour) != SIDECAR_SPEAKS_SHIPPED) {
		rc = session_stream_pass_through(s, err);
		if (rc != CAIRN_UNIMPLEMENTED || s->messages > 0)
			return rc;
		atomic_store(flavour, SIDECAR_SPEAKS_SHIPPED);
	}
	rc = session_stream_translate(s, err);
	if (rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_UNAVAILABLE)
		atomic_store(flavour, SIDECAR_SPEAKS_UNKNOWN);
	return rc;
}

/* The driver's errors have its handles, which callers do not know. */
static void session_stream_name_snapshots(const struct stream *s, struct cairn_err *err)
{
	cairn_err_replace(err, s->target->handle, s->request.target);
	if (s->base)
		cairn_err_replace(err, s->base->handle, s->request.base);
}

static int session_stream_serve(struct stream *s, bool delta, struct cairn_err *err)
{
	int rc = session_stream_read_request(s, delta, err);

	if (!rc)
		rc = check_session(s, err);
	if (!rc)
		rc = session_stream_take_place(s, err);
	if (!rc)
		rc = session_stream_find_names(s, err);
	s->allowed = rc == 0;
	if (rc)
		return rc;
	rc = session_stream_relay(s, err);
	if (rc)
		session_stream_name_snapshots(s, err);
	if (rc == CAIRN_UNAVAILABLE)
		sidecar_driver_doubt(s->sidecar->driver);
	return rc;
}

/* Logged once per call, without the token. A caller without a session cannot fill the log,
 * neither with lines nor with the snapshot names it sends. */
static void session_stream_log_end(const struct stream *s, int rc, const struct cairn_err *err,
				   uint64_t ns)
{
	bool known = s->session && rc != 0 && rc != CAIRN_CANCELLED;

	cairn_log(known ? CAIRN_LOG_INFO : CAIRN_LOG_DEBUG,
		  rc == 0 ? "stream ended" : "stream failed",
		  CAIRN_STR("op", s->request.delta ? "GetDelta" : "GetAllocated"),
		  CAIRN_STR("code", cairn_code_name(rc)), CAIRN_STR("why", rc ? err->msg : ""),
		  CAIRN_STR("peer", net_call_peer(s->call)->address),
		  CAIRN_STR("snapshot", s->session ? s->request.target : ""),
		  CAIRN_STR("base", s->session ? s->request.base : ""),
		  CAIRN_U64("messages", s->messages), CAIRN_U64("ms", ns / CAIRN_NS_PER_MS));
}

/* A session does not contain its user, so the uid of its request is logged instead. */
static void session_stream_audit_end(const struct stream *s, int rc, uint64_t ns)
{
	const char *uid = s->session ? kube_label(s->session, SESSION_UID_LABEL) : NULL;
	char user[128] = "";

	if (s->session)
		snprintf(user, sizeof(user), "session:%s", uid ? uid : "");
	cairn_audit_write(&(struct cairn_audit){
		.op = s->request.delta ? "GetDelta" : "GetAllocated",
		.allowed = s->allowed,
		.user = user,
		.peer = net_call_peer(s->call)->address,
		.ns = s->session ? kube_str(s->session, "spec", "snapshotNamespace") : "",
		.snapshot = s->request.target,
		.base = s->request.base,
		.bytes = s->bytes,
		.code = rc,
		.ms = ns / CAIRN_NS_PER_MS,
	});
}

static int session_stream_run(struct net_call *call, struct sidecar *sidecar, bool delta,
			      struct cairn_err *err)
{
	struct kube_digest origin = kube_origin_of(net_call_peer(call)->address);
	cairn_cleanup(session_stream_done) struct stream s = {
		.sidecar = sidecar,
		.call = call,
		.driver_name = sidecar_driver_name(sidecar->driver),
		.wait = sidecar_step_wait(sidecar, call, &origin),
	};
	uint64_t start_ns = cairn_monotonic_ns();
	uint64_t took;
	int rc = session_stream_serve(&s, delta, err);

	took = cairn_monotonic_ns() - start_ns;
	sidecar_metrics_relayed(sidecar->metrics, s.messages, s.scan.tuples, s.bytes);
	sidecar_metrics_ended(sidecar->metrics,
			      delta ? SIDECAR_METHOD_DELTA : SIDECAR_METHOD_ALLOCATED, -rc, took);
	session_stream_log_end(&s, rc, err, took);
	session_stream_audit_end(&s, rc, took);
	return rc;
}

int sidecar_session_allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	return session_stream_run(call, arg, false, err);
}

int sidecar_session_delta(struct net_call *call, void *arg, struct cairn_err *err)
{
	return session_stream_run(call, arg, true, err);
}
