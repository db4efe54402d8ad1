/* SPDX-License-Identifier: Apache-2.0 */

/* Steps of a call that all flavours share. */
#ifndef CAIRN_SIDECAR_STEPS_H
#define CAIRN_SIDECAR_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/kube_wait.h"

struct cairn_buf;
struct cairn_err;
struct net_call;
struct net_rpc;
struct sidecar;
struct kube_digest;
struct kube_fair_pass;
struct kube_fair_queue;

/* Methods of a driver. */
#define SIDECAR_DRIVER_ALLOCATED "/csi.v1.SnapshotMetadata/GetMetadataAllocated"
#define SIDECAR_DRIVER_DELTA     "/csi.v1.SnapshotMetadata/GetMetadataDelta"

/* Limit of a request to a driver: the default of gRPC servers. */
#define SIDECAR_DRIVER_REQUEST_MAX (4U << 20)

/* Waits while the caller is connected, at most for the time limit of a stream. `origin`
 * may be NULL; it and the call are borrowed. */
struct kube_wait sidecar_step_wait(const struct sidecar *sidecar, const struct net_call *call,
				   const struct kube_digest *origin);

/* Receives the request; its bytes belong to the call.
 *
 * CAIRN_INVALID  there is no request
 */
int sidecar_step_recv(struct net_call *call, const uint8_t **ret, size_t *ret_n,
		      struct cairn_err *err);

/* Waits for a place in `queue`, at most `most_ms`.
 *
 * CAIRN_NO_SPACE  no place became free
 */
int sidecar_step_enter(struct kube_fair_queue *queue, const struct kube_digest *who,
		       uint64_t most_ms, const struct kube_wait *wait, struct kube_fair_pass *place,
		       struct cairn_err *err);

/* Waits for a stream place, up to the configured timeout.
 *
 * CAIRN_NO_SPACE  no place became free
 */
int sidecar_step_place(struct sidecar *sidecar, const struct kube_digest *who,
		       const struct kube_wait *wait, struct kube_fair_pass *place,
		       struct cairn_err *err);

/* Starts the driver's stream on the call's own loop. */
int sidecar_step_driver(struct sidecar *sidecar, struct net_call *call, const char *path,
			const struct cairn_buf *request, const struct kube_wait *wait,
			struct net_rpc **ret, struct cairn_err *err);

/* True once a minute: our own account is refused, which strangers meet as often as they like. */
bool sidecar_step_may_warn(struct sidecar *sidecar);

#endif
