/* SPDX-License-Identifier: Apache-2.0 */

/* Requests pages from the sidecar of a driver, over HTTPS. Calls block; thread-safe.
 * Connections are kept open between calls. */
#ifndef CAIRN_AGGAPI_REMOTE_H
#define CAIRN_AGGAPI_REMOTE_H

#include <jansson.h>
#include <stdint.h>

#include "base/cleanup.h"

struct aggapi_question;
struct aggapi_remote;
struct aggapi_tokens;
struct cairn_err;
struct kube_driver_endpoint;
struct kube_wait;

struct aggapi_remote_options {
	struct aggapi_tokens *tokens; /* sent as bearer tokens; borrowed */
	const char *cert_file;        /* shown to the sidecar; both or neither */
	const char *key_file;
	uint64_t timeout_ms;
};

/* Strings are copied. */
int aggapi_remote_new(const struct aggapi_remote_options *options, struct aggapi_remote **ret,
		      struct cairn_err *err);
void aggapi_remote_free(struct aggapi_remote *remote);
CAIRN_DEFINE_CLEANUP(struct aggapi_remote, aggapi_remote_free);

/* Returns a checked page of the driver. The call is cancelled when the caller of `wait`
 * has gone; the deadline of `wait` is for API server queries and does not apply.
 *
 * CAIRN_UNAVAILABLE  it cannot be reached, or its certificate is not trusted
 * CAIRN_INTERNAL     an invalid answer
 * others             the error of the sidecar or its driver
 */
int aggapi_remote_ask(struct aggapi_remote *remote, const char *driver,
		      const struct kube_driver_endpoint *endpoint,
		      const struct aggapi_question *question, const struct kube_wait *wait,
		      json_t **ret, struct cairn_err *err);

#endif
