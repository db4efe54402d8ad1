/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/stream_driver.h"

#include "base/buf.h"
#include "base/err.h"
#include "kube/digest.h"
#include "kube/kube_wait.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "sidecar/call_common.h"
#include "sidecar/driver_channel.h"
#include "sidecar/route.h"
#include "sidecar/sidecar_impl.h"

void sidecar_stream_driver_done(struct sidecar_stream_driver *driver)
{
	sidecar_route_release(driver->peer);
	kube_fair_queue_leave(&driver->place);
	*driver = (struct sidecar_stream_driver){0};
}

int sidecar_stream_driver_choose(struct sidecar *sidecar, const char *node,
				 const struct kube_wait *wait, struct sidecar_stream_driver *ret,
				 struct cairn_err *err)
{
	struct kube_digest key;
	int rc;

	if (!sidecar_route_is_remote(sidecar->route, node))
		return 0;
	key = kube_digest_of("to", node, NULL);
	rc = sidecar_step_enter(sidecar->routed, &key, sidecar->options.wait_ms, wait, &ret->place,
				err);
	if (rc)
		return cairn_err_wrap(err, "node '%.253s'", node);
	ret->node = node;
	sidecar->routed_out++;
	return 0;
}

static int stream_driver_start_routed(struct sidecar *sidecar, struct sidecar_stream_driver *driver,
				      struct net_call *call, bool delta,
				      const struct cairn_buf *request, uint64_t left_ms,
				      struct net_rpc **ret, struct cairn_err *err)
{
	const char *path = delta ? SIDECAR_ROUTE_DELTA : SIDECAR_ROUTE_ALLOCATED;
	int rc;

	/* The node's sidecar may have moved since the last call. */
	sidecar_route_release(driver->peer);
	driver->peer = NULL;
	rc = sidecar_route_acquire(sidecar->route, driver->node, &driver->peer, err);
	return rc ? rc
		  : sidecar_route_stream(driver->peer, net_call_loop(call), path, request->data,
					 request->len, left_ms, ret, err);
}

int sidecar_stream_driver_start(struct sidecar *sidecar, struct sidecar_stream_driver *driver,
				struct net_call *call, bool delta, const struct cairn_buf *request,
				const struct kube_wait *wait, struct net_rpc **ret,
				struct cairn_err *err)
{
	const char *path = delta ? SIDECAR_DRIVER_DELTA : SIDECAR_DRIVER_ALLOCATED;
	uint64_t left = kube_wait_left_ms(wait, UINT64_MAX);

	if (!driver->node)
		return sidecar_step_driver(sidecar, call, path, request, wait, ret, err);
	if (left == 0)
		return cairn_err_set(err, CAIRN_DEADLINE, "the deadline passed");
	return stream_driver_start_routed(sidecar, driver, call, delta, request, left, ret, err);
}

bool sidecar_stream_driver_ready(struct sidecar *sidecar,
				 const struct sidecar_stream_driver *driver)
{
	char address[SIDECAR_ROUTE_ADDRESS_MAX];
	const struct sidecar_route_map *map = &sidecar->options.route.map;

	if (!driver->node)
		return sidecar_driver_ready(sidecar->driver, NULL, 0);
	return map->find(map->self, driver->node, address, NULL) == 0;
}

void sidecar_stream_driver_doubt(struct sidecar *sidecar,
				 const struct sidecar_stream_driver *driver)
{
	if (!driver->node)
		sidecar_driver_doubt(sidecar->driver);
}

bool sidecar_stream_driver_may_come(const struct sidecar_stream_driver *driver,
				    const struct net_rpc *rpc)
{
	return driver->node && rpc && net_rpc_trailer(rpc, SIDECAR_ROUTE_NOT_READY, NULL);
}
