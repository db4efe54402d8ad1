/* SPDX-License-Identifier: Apache-2.0 */

/* The driver that answers a stream: our own, or the one of another node behind its sidecar.
 *
 * Of one thread at a time.
 */
#ifndef CAIRN_SIDECAR_STREAM_DRIVER_H
#define CAIRN_SIDECAR_STREAM_DRIVER_H

#include <stdbool.h>

#include "kube/fair_queue.h"

struct cairn_buf;
struct cairn_err;
struct kube_wait;
struct net_call;
struct net_rpc;
struct sidecar;
struct sidecar_route_peer;

/* Zeroed, it is our own. */
struct sidecar_stream_driver {
	const char *node; /* borrowed; NULL: our own */
	struct sidecar_route_peer *peer;
	struct kube_fair_pass place; /* among the streams for that node */
};

/* Releases what it holds; every call that it started must be freed before. */
void sidecar_stream_driver_done(struct sidecar_stream_driver *driver);

/* Chooses the driver of `node`, and waits for a place among the streams for that node, so
 * that a node which does not answer cannot take the places of all.
 *
 * CAIRN_NO_SPACE  no place became free
 */
int sidecar_stream_driver_choose(struct sidecar *sidecar, const char *node,
				 const struct kube_wait *wait, struct sidecar_stream_driver *ret,
				 struct cairn_err *err);

/* Starts a stream on the loop of the call; a call that was started before must be freed.
 *
 * CAIRN_UNAVAILABLE  also when it is not known where the node's sidecar is
 */
int sidecar_stream_driver_start(struct sidecar *sidecar, struct sidecar_stream_driver *driver,
				struct net_call *call, bool delta, const struct cairn_buf *request,
				const struct kube_wait *wait, struct net_rpc **ret,
				struct cairn_err *err);

/* True if an attempt to reach it makes sense. */
bool sidecar_stream_driver_ready(struct sidecar *sidecar,
				 const struct sidecar_stream_driver *driver);

/* Reports that a call failed as if the driver were gone. */
void sidecar_stream_driver_doubt(struct sidecar *sidecar,
				 const struct sidecar_stream_driver *driver);

/* True if an UNAVAILABLE is the word of the node's sidecar, whose driver may come back. */
bool sidecar_stream_driver_may_come(const struct sidecar_stream_driver *driver,
				    const struct net_rpc *rpc);

#endif
