/* SPDX-License-Identifier: Apache-2.0 */

/* A client's parts, and the one way to make a request with it. */
#ifndef CAIRN_KUBE_CLIENT_IMPL_H
#define CAIRN_KUBE_CLIENT_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kube/client.h"
#include "kube/throttle.h"

struct cairn_buf;
struct kube_credentials;
struct kube_exchange;
struct kube_patience;
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

/* Makes the request, again where client.h says so, until there is an answer
 * that is a success; of a streamed one only its head has come then. */
int kube_execute(struct kube_client *client, const struct kube_request *request,
		 const struct kube_call *how, struct kube_exchange **ret, struct cairn_err *err);

/* A request whose answer is an object; `ret` may be NULL. `body` may be NULL. */
int kube_execute_json(struct kube_client *client, const struct kube_request *request,
		      const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Appends name=value with '?' or '&'; nothing where the value is NULL or "". */
void kube_query_add(struct cairn_buf *path, const char *name, const char *value);

#endif
