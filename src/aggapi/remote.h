/* SPDX-License-Identifier: Apache-2.0 */

/* Asks the sidecar of a driver for a page, over HTTPS. Calls block; any thread.
 * Connections stay open between calls. */
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

/* Texts are copied. */
int aggapi_remote_new(const struct aggapi_remote_options *options, struct aggapi_remote **ret,
		      struct cairn_err *err);
void aggapi_remote_free(struct aggapi_remote *remote);
CAIRN_DEFINE_CLEANUP(struct aggapi_remote, aggapi_remote_free);

/* A page of the driver, which was checked. The call ends when the caller of `wait` is gone; its
 * deadline, which is for questions to the API server, does not count.
 *
 * CAIRN_UNAVAILABLE  it cannot be reached, or its certificate is not trusted
 * CAIRN_INTERNAL     an answer that is none
 * others: what the sidecar or its driver said
 */
int aggapi_remote_ask(struct aggapi_remote *remote, const char *driver,
		      const struct kube_driver_endpoint *endpoint,
		      const struct aggapi_question *question, const struct kube_wait *wait,
		      json_t **ret, struct cairn_err *err);

#endif
