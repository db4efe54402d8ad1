/* SPDX-License-Identifier: Apache-2.0 */

/* A stream that the sidecar of another node passes on: the bytes of a driver's request, for
 * our driver.
 *
 * The other sidecar has checked token, permission and names, and scans the response; its
 * certificate, signed by the route's own authority, is what is checked here. Callers on the
 * public port have no such certificate and find no such method.
 *
 * The audit log has a line here too: the owner of a stolen certificate has no line elsewhere.
 */

#include <inttypes.h>
#include <stdio.h>

#include "base/audit.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "kube/caller.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/kube_wait.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/relay.h"
#include "sidecar/call_common.h"
#include "sidecar/driver_channel.h"
#include "sidecar/route.h"
#include "sidecar/sidecar_impl.h"
#include "sidecar/sidecar_request.h"

static int routed_check_driver(struct sidecar *sidecar, struct net_call *call,
			       struct cairn_err *err)
{
	char why[CAIRN_ERR_TEXT_MAX];

	if (sidecar_driver_ready(sidecar->driver, why, sizeof(why)))
		return 0;
	net_call_add_trailer(call, SIDECAR_ROUTE_NOT_READY, "1", 1, NULL);
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "the CSI driver is not ready: %.200s", why);
}

/* One stream, as reported to the audit log. */
struct routed {
	bool delta;
	struct sidecar_request_handles handles;
	uint64_t bytes;
};

static int routed_relay(struct sidecar *sidecar, struct net_call *call,
			const struct kube_wait *wait, struct routed *r, struct cairn_err *err)
{
	const char *path = r->delta ? SIDECAR_DRIVER_DELTA : SIDECAR_DRIVER_ALLOCATED;
	cairn_auto_secret_buf struct cairn_buf request = CAIRN_BUF_INIT(SIDECAR_DRIVER_REQUEST_MAX);
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	const struct net_relay_options options = {.message_max = sidecar->options.message_max,
						  .flows = &sidecar->flows};
	struct net_relay_result result = {0};
	const uint8_t *data;
	size_t n;
	int rc = sidecar_step_recv(call, &data, &n, err);

	if (rc)
		return rc;
	sidecar_request_handles(r->delta, data, n, &r->handles);
	cairn_buf_add(&request, data, n);
	if (cairn_buf_failed(&request))
		return cairn_err_set(err, CAIRN_NO_SPACE, "the request is too large");
	rc = sidecar_step_driver(sidecar, call, path, &request, wait, &rpc, err);
	if (!rc)
		rc = net_relay_run(call, rpc, &options, &result, err);
	if (rc == CAIRN_UNAVAILABLE)
		sidecar_driver_doubt(sidecar->driver);
	/* A driver that went away has sent no status. */
	if (rc == CAIRN_UNAVAILABLE && (!rpc || !net_rpc_trailer(rpc, "grpc-status", NULL)))
		net_call_add_trailer(call, SIDECAR_ROUTE_NOT_READY, "1", 1, NULL);
	r->bytes = result.bytes;
	return rc;
}

static void routed_report(const struct routed *r, struct net_call *call, int rc,
			  const struct cairn_err *err, uint64_t start_ns)
{
	const struct net_peer *peer = net_call_peer(call);
	uint64_t ms = (cairn_monotonic_ns() - start_ns) / CAIRN_NS_PER_MS;
	char user[CAIRN_AUDIT_TEXT_MAX + 1];

	snprintf(user, sizeof(user), "node:%s", peer->tls_subject);
	cairn_log(CAIRN_LOG_DEBUG, rc == 0 ? "routed stream ended" : "routed stream failed",
		  CAIRN_STR("code", cairn_code_name(rc)), CAIRN_STR("why", rc ? err->msg : ""),
		  CAIRN_STR("node", peer->tls_subject), CAIRN_STR("peer", peer->address),
		  CAIRN_U64("bytes", r->bytes), CAIRN_U64("ms", ms));
	cairn_audit_write(&(struct cairn_audit){
		.op = r->delta ? "route GetMetadataDelta" : "route GetMetadataAllocated",
		.allowed = true,
		.user = user,
		.peer = peer->address,
		.snapshot = r->handles.target,
		.base = r->handles.base,
		.bytes = r->bytes,
		.code = rc,
		.ms = ms,
	});
}

static int routed_run(struct net_call *call, struct sidecar *sidecar, bool delta,
		      struct cairn_err *err)
{
	const char *subject = net_call_peer(call)->tls_subject;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass place = {0};
	struct kube_wait wait = sidecar_step_wait(sidecar, call, NULL);
	uint64_t start = cairn_monotonic_ns();
	struct routed r = {.delta = delta};
	struct kube_digest from;
	int rc;

	if (!subject)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "unknown method");
	net_call_trust(call);
	sidecar->routed_in++;
	/* A certificate may have its name in the subjectAltName only. */
	from = *subject ? kube_digest_of("from", subject, NULL)
			: kube_origin_of(net_call_peer(call)->address);
	rc = sidecar_step_enter(sidecar->routed, &from, sidecar->options.wait_ms, &wait, &place,
				err);
	if (!rc)
		rc = routed_check_driver(sidecar, call, err);
	if (!rc)
		rc = routed_relay(sidecar, call, &wait, &r, err);
	routed_report(&r, call, rc, err, start);
	return rc;
}

int sidecar_routed_allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	return routed_run(call, arg, false, err);
}

int sidecar_routed_delta(struct net_call *call, void *arg, struct cairn_err *err)
{
	return routed_run(call, arg, true, err);
}
