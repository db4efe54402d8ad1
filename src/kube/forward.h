/* SPDX-License-Identifier: Apache-2.0 */

/* A request that is passed on to the API server as it is, and its answer as it arrives:
 * for a server that stands in front of the API server for some paths.
 *
 * The request is made with the client's own credentials. The caller must have checked that
 * the user on whose behalf it asks may do this. It is sent once; the user retries.
 */
#ifndef CAIRN_KUBE_FORWARD_H
#define CAIRN_KUBE_FORWARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_buf;
struct cairn_err;
struct kube_call;
struct kube_client;
struct kube_forward;

/* Unread bytes of an answer after which the API server is made to wait. */
#define KUBE_FORWARD_UNREAD_MAX (256U << 10)

/* Strings and body are borrowed until the forward is freed. */
struct kube_forward_request {
	const char *method;
	const char *path; /* with the query */
	const char *accept;
	const char *content_type;
	const void *body;
	size_t body_len;
};

/* Returns when the head of the answer has arrived, whatever its status is. The deadline of
 * `how` bounds only that; its `check` is also called by kube_forward_read().
 *
 * CAIRN_UNAVAILABLE  no connection, or the server rejects our own credentials
 * CAIRN_CANCELLED, CAIRN_DEADLINE  `how`, or the client is shutting down
 */
int kube_forward_open(struct kube_client *client, const struct kube_forward_request *request,
		      const struct kube_call *how, struct kube_forward **ret,
		      struct cairn_err *err);

int kube_forward_http(const struct kube_forward *forward);

/* The fields Content-Type and Warning of the answer, as lines "Name: value"; NULL after the
 * last. Borrowed. */
const char *kube_forward_field(const struct kube_forward *forward, size_t i);

/* Seconds of Retry-After; 0 if there is none. */
uint64_t kube_forward_retry_s(const struct kube_forward *forward);

/* Moves the next bytes of the body to `into`, which must be empty. Returns 1 with bytes, 0
 * at the end of a complete answer, or an error code. */
int kube_forward_read(struct kube_forward *forward, struct cairn_buf *into, struct cairn_err *err);

/* Appends the rest of the body, in however many pieces it arrives, to `into`. A body that does
 * not fit leaves a buffer that cairn_buf_failed(). Returns 0 or an error code. */
int kube_forward_read_all(struct kube_forward *forward, struct cairn_buf *into,
			  struct cairn_err *err);

void kube_forward_free(struct kube_forward *forward); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct kube_forward, kube_forward_free);

#endif
