/* SPDX-License-Identifier: Apache-2.0 */

/* A call from its request to its status, as sequential code on a worker thread. */

#include <inttypes.h>
#include <string.h>

#include "base/audit.h"
#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/caller.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/kube_wait.h"
#include "kube/user.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/relay.h"
#include "proto/block_metadata.h"
#include "sidecar/access.h"
#include "sidecar/call_common.h"
#include "sidecar/driver_channel.h"
#include "sidecar/resolve.h"
#include "sidecar/sidecar_impl.h"
#include "sidecar/sidecar_metrics.h"
#include "sidecar/sidecar_request.h"
#include "sidecar/stream_driver.h"

/* Pauses between attempts to reach a driver that went away. */
#define RESUME_FIRST_MS 20U
#define RESUME_MOST_MS  500U

struct stream {
	struct sidecar *sidecar;
	struct net_call *call;
	struct sidecar_request request;
	struct kube_wait wait;
	const char *driver_name;
	struct kube_user *user;
	struct kube_fair_pass place;
	struct sidecar_snapshot *target;
	struct sidecar_stream_driver driver;
	struct proto_block_scan scan;
	bool allowed; /* token and permission were accepted */
	bool violated;
	unsigned resumed; /* number of times the driver was called again */
	uint64_t bytes;   /* relayed */
};

static void sidecar_stream_done(struct stream *s)
{
	sidecar_stream_driver_done(&s->driver);
	kube_fair_queue_leave(&s->place);
	kube_value_unrefp(&s->target);
	kube_value_unrefp(&s->user);
	sidecar_request_done(&s->request);
}

static int sidecar_stream_read_request(struct stream *s, bool delta, struct cairn_err *err)
{
	const uint8_t *data;
	size_t n;
	int rc = sidecar_step_recv(s->call, &data, &n, err);

	return rc ? rc : sidecar_request_read(delta, data, n, &s->request, err);
}

/* Checks the token, then the permission. */
static int sidecar_stream_authenticate(struct stream *s, struct cairn_err *err)
{
	struct sidecar_access *access = s->sidecar->access;
	int rc;

	kube_value_unrefp(&s->user);
	s->user = NULL;
	rc = sidecar_access_user(access, s->driver_name, s->request.token, &s->wait, &s->user, err);
	if (rc == 0)
		net_call_trust(s->call);
	return rc ? rc
		  : sidecar_access_check(access, s->user, s->request.ns, s->request.snapshot,
					 &s->wait, err);
}

/* Waits until the driver is ready, up to `until_ns` and at least for one pause. Returns
 * CAIRN_UNAVAILABLE without touching `err` if it does not become ready, else the reason why
 * the caller's stream ended. */
static int sidecar_stream_await_driver(struct stream *s, struct cairn_backoff *pause,
				       uint64_t until_ns, struct cairn_err *err)
{
	sidecar_stream_driver_doubt(s->sidecar, &s->driver);
	do {
		int rc;

		if (s->sidecar->draining || cairn_monotonic_ns() >= until_ns)
			return CAIRN_UNAVAILABLE;
		rc = net_call_sleep(s->call, cairn_backoff_next(pause), err);
		if (rc)
			return rc;
	} while (!sidecar_stream_driver_ready(s->sidecar, &s->driver));
	return 0;
}

/* A driver that was ready before may be restarting: waits for it. After a wait, also for a place
 * of its node, the caller is checked again: its token or permission may have ended meanwhile. */
static int sidecar_stream_check_driver(struct stream *s, struct cairn_err *err)
{
	uint64_t until = cairn_monotonic_ns() + s->sidecar->options.resume_ms * CAIRN_NS_PER_MS;
	struct cairn_backoff pause = {.first_ms = RESUME_FIRST_MS, .most_ms = RESUME_MOST_MS};
	int rc = CAIRN_UNAVAILABLE;

	if (s->driver_name && sidecar_stream_driver_ready(s->sidecar, &s->driver))
		return s->driver.place.waited ? sidecar_stream_authenticate(s, err) : 0;
	if (s->driver_name && s->sidecar->options.resume_ms)
		rc = sidecar_stream_await_driver(s, &pause, until, err);
	if (rc == CAIRN_UNAVAILABLE && s->driver.node)
		return cairn_err_set(err, rc, "no sidecar is ready on node '%.253s'",
				     s->driver.node);
	if (rc == CAIRN_UNAVAILABLE)
		return cairn_err_set(err, rc, "the CSI driver is not yet ready");
	return rc ? rc : sidecar_stream_authenticate(s, err);
}

/* Waits for a stream place. After a wait the caller is checked again, because its
 * permission may have been revoked meanwhile. */
static int sidecar_stream_take_place(struct stream *s, struct cairn_err *err)
{
	int rc = sidecar_step_place(s->sidecar, &s->user->who, &s->wait, &s->place, err);

	if (!rc && s->place.waited)
		rc = sidecar_stream_authenticate(s, err);
	return rc;
}

static int sidecar_stream_find_names(struct stream *s, struct cairn_err *err)
{
	struct sidecar *sidecar = s->sidecar;
	struct sidecar_base base = {
		.driver = s->driver_name,
		.id = s->request.base,
		.user = s->user,
		.access = sidecar->access,
		.owned = sidecar->options.owned_base,
	};
	int rc = sidecar_resolve_find(sidecar->names, s->driver_name, s->request.ns,
				      s->request.snapshot, &s->wait, &s->target, err);

	base.target = s->target;
	if (!rc && s->request.delta)
		rc = sidecar_resolve_check_base(sidecar->names, &base, &s->wait, err);
	return rc;
}

/* Runs on an I/O thread, for each message. */
static int sidecar_stream_look_at(void *arg, const uint8_t *message, size_t n,
				  struct cairn_err *err)
{
	struct stream *s = arg;
	int rc = proto_block_scan(&s->scan, message, n, NULL, err);

	s->violated = rc != 0;
	return rc;
}

static const char *driver_path(const struct stream *s)
{
	return s->request.delta ? SIDECAR_DRIVER_DELTA : SIDECAR_DRIVER_ALLOCATED;
}

static int start_driver(struct stream *s, struct net_rpc **ret, struct cairn_err *err)
{
	cairn_auto_secret_buf struct cairn_buf request = CAIRN_BUF_INIT(SIDECAR_DRIVER_REQUEST_MAX);
	int rc = sidecar_request_pack(&s->request, s->target->handle, s->target->secret, &request,
				      err);

	return rc ? rc
		  : sidecar_stream_driver_start(s->sidecar, &s->driver, s->call, s->request.delta,
						&request, &s->wait, ret, err);
}

/* Our driver does not have a snapshot of which nothing says on which node it is: another
 * node's may. */
static int sidecar_stream_explain_homeless(const struct stream *s, struct cairn_err *err)
{
	cairn_err_wrap(err, "VolumeSnapshot '%s/%s' belongs to no known node, and the driver here",
		       s->request.ns, s->request.snapshot);
	return cairn_err_recode(err, CAIRN_PRECONDITION);
}

/* Maps a driver's failure for the caller: the driver's own status, except for codes that a
 * driver cannot return. */
static int sidecar_stream_explain(struct stream *s, int rc, struct cairn_err *err)
{
	if (s->violated) {
		sidecar_metrics_violation(s->sidecar->metrics);
		return cairn_err_wrap(err, "the CSI driver broke the protocol");
	}
	if (rc == CAIRN_UNAVAILABLE)
		sidecar_stream_driver_doubt(s->sidecar, &s->driver);
	if (rc == CAIRN_UNAVAILABLE && s->driver.node)
		return cairn_err_wrap(err, "node '%.253s'", s->driver.node);
	if (rc == CAIRN_NOT_FOUND && s->sidecar->route && !s->target->node)
		return sidecar_stream_explain_homeless(s, err);
	if (rc == CAIRN_UNKNOWN) {
		cairn_err_wrap(err, "failed to get response from CSI driver");
		return cairn_err_recode(err, CAIRN_INTERNAL);
	}
	return rc;
}

/* One call of the driver. *ret_lost: the driver went away, or said UNAVAILABLE in the middle
 * of the stream. A driver that says so at the first call, before its first message, is
 * believed; at a later call it may be the driver that is about to stop. */
static int sidecar_stream_attempt(struct stream *s, bool *ret_lost, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	struct net_relay_options options = {.scan = sidecar_stream_look_at,
					    .arg = s,
					    .message_max = s->sidecar->options.message_max,
					    .flows = &s->sidecar->flows};
	struct net_relay_result result = {0};
	uint64_t start = cairn_monotonic_ns(), tuples = s->scan.tuples;
	int rc;

	s->scan.starting_offset = (uint64_t)s->request.starting_offset;
	rc = start_driver(s, &rpc, err);
	if (!rc)
		rc = net_relay_run(s->call, rpc, &options, &result, err);
	*ret_lost = rc == CAIRN_UNAVAILABLE && (result.messages > 0 || s->resumed > 0 || !rpc ||
						!net_rpc_trailer(rpc, "grpc-status", NULL) ||
						sidecar_stream_driver_may_come(&s->driver, rpc));
	s->bytes += result.bytes;
	sidecar_metrics_relayed(s->sidecar->metrics, result.messages, s->scan.tuples - tuples,
				result.bytes);
	sidecar_metrics_ended(s->sidecar->metrics, driver_path(s), -rc,
			      cairn_monotonic_ns() - start);
	return rc;
}

/* Nothing can follow a block that ends at the capacity: the stream is complete, although
 * the driver's status was lost. A driver may refuse to start there. */
static bool sidecar_stream_is_complete(const struct stream *s)
{
	return s->scan.tuples > 0 && s->scan.end >= s->scan.capacity;
}

/* Prepares the next call of the driver: it begins where the caller's blocks end. The scan
 * goes on, so that a driver that comes back with other blocks, another type or another
 * capacity ends the stream. The caller is checked again, because time has passed. */
static int sidecar_stream_resume(struct stream *s, struct cairn_err *err)
{
	if (s->scan.tuples > 0)
		s->request.starting_offset = (int64_t)s->scan.end;
	s->resumed++;
	sidecar_metrics_resumed(s->sidecar->metrics);
	net_call_clear_trailers(s->call);
	return sidecar_stream_authenticate(s, err);
}

/* Relays the driver's answer, over restarts of the driver. Applications that get an error
 * here read the whole device instead, so a driver that is updated must not end streams. */
static int sidecar_stream_relay(struct stream *s, struct cairn_err *err)
{
	struct cairn_backoff pause = {.first_ms = RESUME_FIRST_MS, .most_ms = RESUME_MOST_MS};
	uint64_t patience = s->sidecar->options.resume_ms * CAIRN_NS_PER_MS;
	uint64_t until = 0, tuples = 0;
	bool lost;
	int rc, why;

	s->scan.max_results = (uint32_t)s->request.max_results;
	while ((rc = sidecar_stream_attempt(s, &lost, err)) && lost && patience) {
		if (sidecar_stream_is_complete(s)) {
			net_call_clear_trailers(s->call); /* of the failure */
			return 0;
		}
		/* Each attempt queues a window, even if the caller reads nothing. */
		why = net_call_await_room(s->call, s->wait.deadline_ns, err);
		if (why)
			return why;
		/* Only blocks are progress: messages without any could come for ever. */
		if (until == 0 || s->scan.tuples > tuples) {
			tuples = s->scan.tuples;
			until = cairn_monotonic_ns() + patience;
			cairn_backoff_reset(&pause);
		}
		why = sidecar_stream_await_driver(s, &pause, until, err);
		if (!why)
			why = sidecar_stream_resume(s, err);
		else if (why == CAIRN_UNAVAILABLE)
			break;
		if (why)
			return why;
	}
	return rc ? sidecar_stream_explain(s, rc, err) : 0;
}

static int sidecar_stream_find_driver(struct stream *s, struct cairn_err *err)
{
	int rc = sidecar_stream_driver_choose(s->sidecar, s->target->node, &s->wait, &s->driver,
					      err);

	return rc ? rc : sidecar_stream_check_driver(s, err);
}

static int sidecar_stream_serve(struct stream *s, bool delta, struct cairn_err *err)
{
	int rc = sidecar_stream_read_request(s, delta, err);

	/* Without the driver's name the audience of tokens is not known. */
	if (!rc && !s->driver_name)
		rc = sidecar_stream_check_driver(s, err);
	if (!rc)
		rc = sidecar_stream_authenticate(s, err);
	/* With a route, a stream for another node does not need the driver here. */
	if (!rc && !s->sidecar->route)
		rc = sidecar_stream_check_driver(s, err);
	if (!rc)
		rc = sidecar_stream_take_place(s, err);
	if (!rc)
		rc = sidecar_stream_find_names(s, err);
	s->allowed = rc == 0;
	if (!rc && s->sidecar->route)
		rc = sidecar_stream_find_driver(s, err);
	s->allowed = s->allowed && rc != CAIRN_DENIED && rc != CAIRN_UNAUTHENTICATED;
	return rc ? rc : sidecar_stream_relay(s, err);
}

/* Logged once per call, with names only. A caller without a valid token cannot fill the
 * log. Streams that ended well are logged too: applications hide their fallbacks, and only
 * this line shows that one was not needed. */
static void sidecar_stream_log_end(const struct stream *s, int rc, const struct cairn_err *err,
				   uint64_t ns)
{
	bool known = s->user && rc != CAIRN_CANCELLED;
	enum cairn_log_level level = known ? CAIRN_LOG_INFO : CAIRN_LOG_DEBUG;

	if (s->violated || (rc == CAIRN_INTERNAL && (s->user || sidecar_step_may_warn(s->sidecar))))
		level = CAIRN_LOG_WARN;
	cairn_log(level, rc == 0 ? "stream ended" : "stream failed",
		  CAIRN_STR("op", s->request.delta ? "GetMetadataDelta" : "GetMetadataAllocated"),
		  CAIRN_STR("code", cairn_code_name(rc)), CAIRN_STR("why", rc ? err->msg : ""),
		  CAIRN_STR("user", s->user ? s->user->name : ""),
		  CAIRN_STR("peer", net_call_peer(s->call)->address),
		  CAIRN_STR("namespace", s->request.ns), CAIRN_STR("snapshot", s->request.snapshot),
		  CAIRN_STR("base", s->request.base),
		  CAIRN_STR("node", s->driver.node ? s->driver.node : ""),
		  CAIRN_U64("messages", s->scan.messages), CAIRN_U64("tuples", s->scan.tuples),
		  CAIRN_U64("bytes", s->scan.bytes_reported), CAIRN_U64("end", s->scan.end),
		  CAIRN_U64("resumed", s->resumed), CAIRN_U64("ms", ns / CAIRN_NS_PER_MS));
}

static void sidecar_stream_audit_end(const struct stream *s, int rc, uint64_t ns)
{
	cairn_audit_write(&(struct cairn_audit){
		.op = s->request.delta ? "GetMetadataDelta" : "GetMetadataAllocated",
		.allowed = s->allowed,
		.user = s->user ? s->user->name : "",
		.peer = net_call_peer(s->call)->address,
		.ns = s->request.ns,
		.snapshot = s->request.snapshot,
		.base = s->request.base,
		.bytes = s->bytes,
		.code = rc,
		.ms = ns / CAIRN_NS_PER_MS,
	});
}

static int sidecar_stream_run(struct net_call *call, struct sidecar *sidecar, bool delta,
			      struct cairn_err *err)
{
	struct kube_digest origin = kube_origin_of(net_call_peer(call)->address);
	cairn_cleanup(sidecar_stream_done) struct stream s = {
		.sidecar = sidecar,
		.call = call,
		.driver_name = sidecar_driver_name(sidecar->driver),
		.wait = sidecar_step_wait(sidecar, call, &origin),
	};
	uint64_t start = cairn_monotonic_ns();
	uint64_t took;
	int rc = sidecar_stream_serve(&s, delta, err);

	took = cairn_monotonic_ns() - start;
	sidecar_metrics_ended(sidecar->metrics,
			      delta ? SIDECAR_METHOD_DELTA : SIDECAR_METHOD_ALLOCATED, -rc, took);
	sidecar_stream_log_end(&s, rc, err, took);
	sidecar_stream_audit_end(&s, rc, took);
	return rc;
}

int sidecar_allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	return sidecar_stream_run(call, arg, false, err);
}

int sidecar_delta(struct net_call *call, void *arg, struct cairn_err *err)
{
	return sidecar_stream_run(call, arg, true, err);
}
