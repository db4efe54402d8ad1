/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of a client, and the function that all requests go through. */
#ifndef CAIRN_KUBE_CLIENT_IMPL_H
#define CAIRN_KUBE_CLIENT_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kube/kube_client.h"
#include "kube/throttle.h"

struct cairn_buf;
struct kube_credentials;
struct kube_exchange;
struct kube_deadline;
struct kube_request;
struct kube_transport;

struct kube_client {
	struct kube_config *config;
	struct kube_credentials *credentials;
	struct kube_transport *transport;
	char *user_agent;
	uint64_t timeout_ms;

	atomic_bool shutdown;
	atomic_uint_fast64_t requests;
	atomic_uint_fast64_t retries;
	atomic_uint_fast64_t limited_ns;

	struct kube_throttle throttle;
};

/* Sends the request and retries it as described in client.h until it succeeds. For a
 * streamed answer it returns once the head has arrived. */
int kube_execute(struct kube_client *client, const struct kube_request *request,
		 const struct kube_call *how, struct kube_exchange **ret, struct cairn_err *err);

/* A request whose answer is a JSON object. `ret` and `body` may be NULL. */
int kube_execute_json(struct kube_client *client, const struct kube_request *request,
		      const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Appends name=value with '?' or '&'; appends nothing if the value is NULL or "". */
void kube_query_add(struct cairn_buf *path, const char *name, const char *value);

#endif
