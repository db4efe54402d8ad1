/* SPDX-License-Identifier: Apache-2.0 */

/* A filter for the table of kube.h that limits concurrent queries and queues them fairly
 * by peer address, so that a peer that floods us with bad tokens does not use up the API
 * server for all others. */
#ifndef CAIRN_SIDECAR_KUBE_GATE_H
#define CAIRN_SIDECAR_KUBE_GATE_H

#include "sidecar/kube.h"

struct kube_fair_queue;

struct sidecar_kube_gate {
	struct sidecar_kube behind;
	struct kube_fair_queue *gate;
};

/* Returns the table; `gate` must not move. A wait without an origin is not limited. */
struct sidecar_kube sidecar_kube_gate(struct sidecar_kube_gate *gate);

#endif
