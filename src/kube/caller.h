/* SPDX-License-Identifier: Apache-2.0 */

/* The peer that sent a request: its address and how long it waits for the answer. */
#ifndef CAIRN_KUBE_CALLER_H
#define CAIRN_KUBE_CALLER_H

#include <stdint.h>

#include "kube/digest.h"
#include "kube/kube_wait.h"

struct net_http;

/* The key under which a peer's queries are queued fairly: its address without the port, or
 * the /64 prefix of an IPv6 address. */
struct kube_digest kube_origin_of(const char *address);

struct kube_caller {
	struct kube_digest origin;
	struct kube_wait wait; /* points to `origin`, so the struct must not move */
};

/* For an HTTP request that must be answered within `ms`. */
void kube_caller_init(struct kube_caller *caller, struct net_http *http, uint64_t ms);

#endif
