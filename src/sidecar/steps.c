/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/steps.h"

#include "base/buf.h"
#include "base/err.h"
#include "net/call.h"
#include "sidecar/driver.h"
#include "sidecar/gate.h"
#include "sidecar/sidecar_impl.h"

static int call_check(const void *arg)
{
	return net_call_check(arg);
}

struct sidecar_wait sidecar_step_wait(const struct sidecar *sidecar, const struct net_call *call,
				      const struct sidecar_key *origin)
{
	struct sidecar_wait wait = {
		.deadline_ns = net_call_deadline(call),
		.check = call_check,
		.arg = call,
		.origin = origin,
	};
	uint64_t longest = sidecar->options.stream_ms;

	return sidecar_wait_within(&wait, longest ? longest : UINT64_MAX);
}

int sidecar_step_recv(struct net_call *call, const uint8_t **ret, size_t *ret_n,
		      struct cairn_err *err)
{
	int rc = net_call_recv(call, ret, ret_n, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the request has no message");
	return rc < 0 ? rc : 0;
}

int sidecar_step_place(struct sidecar *sidecar, const struct sidecar_key *who,
		       const struct sidecar_wait *wait, struct sidecar_pass *place,
		       struct cairn_err *err)
{
	struct sidecar_wait within = sidecar_wait_within(wait, sidecar->options.wait_ms);
	int rc = sidecar_gate_enter(sidecar->streams, who, &within, place, err);

	if (rc == CAIRN_DEADLINE && sidecar_wait_check(wait, NULL) == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "no stream became free in time; try again later");
	return rc;
}

int sidecar_step_driver(struct sidecar *sidecar, struct net_call *call, const char *path,
			const struct cairn_buf *request, const struct sidecar_wait *wait,
			struct net_rpc **ret, struct cairn_err *err)
{
	uint64_t left = sidecar_wait_left_ms(wait, UINT64_MAX);

	if (left == 0)
		return cairn_err_set(err, CAIRN_DEADLINE, "the deadline passed");
	return sidecar_driver_stream(sidecar->driver, net_call_loop(call), path, request->data,
				     request->len, left, ret, err);
}
