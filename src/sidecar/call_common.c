/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/call_common.h"

#include <stdatomic.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "kube/fair_queue.h"
#include "net/grpc/call.h"
#include "sidecar/driver_channel.h"
#include "sidecar/sidecar_impl.h"

#define WARN_MS 60000U

static int call_check(const void *arg)
{
	return net_call_check(arg);
}

struct kube_wait sidecar_step_wait(const struct sidecar *sidecar, const struct net_call *call,
				   const struct kube_digest *origin)
{
	struct kube_wait wait = {
		.deadline_ns = net_call_deadline(call),
		.check = call_check,
		.arg = call,
		.origin = origin,
	};
	uint64_t longest = sidecar->options.stream_ms;

	return kube_wait_within(&wait, longest ? longest : UINT64_MAX);
}

int sidecar_step_recv(struct net_call *call, const uint8_t **ret, size_t *ret_n,
		      struct cairn_err *err)
{
	int rc = net_call_recv(call, ret, ret_n, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the request has no message");
	return rc < 0 ? rc : 0;
}

int sidecar_step_enter(struct kube_fair_queue *queue, const struct kube_digest *who,
		       uint64_t most_ms, const struct kube_wait *wait, struct kube_fair_pass *place,
		       struct cairn_err *err)
{
	struct kube_wait within = kube_wait_within(wait, most_ms);
	int rc = kube_fair_queue_enter(queue, who, &within, place, err);

	if (rc == CAIRN_DEADLINE && kube_wait_check(wait, NULL) == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "no stream became free in time; try again later");
	return rc;
}

int sidecar_step_place(struct sidecar *sidecar, const struct kube_digest *who,
		       const struct kube_wait *wait, struct kube_fair_pass *place,
		       struct cairn_err *err)
{
	return sidecar_step_enter(sidecar->streams, who, sidecar->options.wait_ms, wait, place,
				  err);
}

int sidecar_step_driver(struct sidecar *sidecar, struct net_call *call, const char *path,
			const struct cairn_buf *request, const struct kube_wait *wait,
			struct net_rpc **ret, struct cairn_err *err)
{
	uint64_t left = kube_wait_left_ms(wait, UINT64_MAX);

	if (left == 0)
		return cairn_err_set(err, CAIRN_DEADLINE, "the deadline passed");
	return sidecar_driver_stream(sidecar->driver, net_call_loop(call), path, request->data,
				     request->len, left, ret, err);
}

bool sidecar_step_may_warn(struct sidecar *sidecar)
{
	uint64_t now = cairn_monotonic_ns(), last = sidecar->warned_ns;

	return (last == 0 || now - last > WARN_MS * CAIRN_NS_PER_MS) &&
	       atomic_compare_exchange_strong(&sidecar->warned_ns, &last, now);
}
