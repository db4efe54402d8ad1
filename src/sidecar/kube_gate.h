/* SPDX-License-Identifier: Apache-2.0 */

/* A filter before the table of kube.h: only so many questions at once, taken in
 * turn from the addresses that callers come from, so that one which floods us
 * with bad tokens does not use up the API server for all. */
#ifndef CAIRN_SIDECAR_KUBE_GATE_H
#define CAIRN_SIDECAR_KUBE_GATE_H

#include "sidecar/kube.h"

struct kube_fair_queue;

struct sidecar_kube_gate {
	struct sidecar_kube behind;
	struct kube_fair_queue *gate;
};

/* The table; `gate` must stay where it is. A wait without an origin passes. */
struct sidecar_kube sidecar_kube_gate(struct sidecar_kube_gate *gate);

#endif
