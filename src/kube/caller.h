/* SPDX-License-Identifier: Apache-2.0 */

/* Somebody at the other end of a request: how long they wait, and where they are. */
#ifndef CAIRN_KUBE_CALLER_H
#define CAIRN_KUBE_CALLER_H

#include <stdint.h>

#include "kube/digest.h"
#include "kube/wait.h"

struct net_http;

/* The owner of questions that are taken in turn: the address without its port, the
 * /64 of an IPv6 one. */
struct kube_digest kube_origin_of(const char *address);

struct kube_caller {
	struct kube_digest origin;
	struct kube_wait wait; /* points to `origin`: a caller stays where it is */
};

/* Of an HTTP request that is answered within `ms`. */
void kube_caller_init(struct kube_caller *caller, struct net_http *http, uint64_t ms);

#endif
