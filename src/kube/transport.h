/* SPDX-License-Identifier: Apache-2.0 */

/* HTTP exchanges over persistent connections.
 *
 * One thread drives libcurl and owns the connections and their HTTP/2 streams, so that
 * callers on any thread share them. A caller submits an exchange, waits for it and frees
 * it; waiting, cancelling and reading a streamed body happen on the caller's thread.
 */
#ifndef CAIRN_KUBE_TRANSPORT_H
#define CAIRN_KUBE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"

struct cairn_err;
struct kube_config;
struct kube_exchange;
struct kube_identity;
struct kube_deadline;
struct kube_transport;

/* A peer that does not acknowledge packets for this time is considered dead. This ends a
 * watch on a dead connection. */
#define KUBE_DEAD_PEER_S 30

#define KUBE_CONNECT_MS 10000

/* Limit of all header fields of an answer together. */
#define KUBE_ANSWER_FIELDS_MAX 65536

struct kube_transport_options {
	const char *user_agent;
	bool http1;
};

/* `config` is borrowed. */
int kube_transport_new(const struct kube_config *config,
		       const struct kube_transport_options *options, struct kube_transport **ret,
		       struct cairn_err *err);

/* Ends all current and future exchanges with CAIRN_CANCELLED. From any thread. */
void kube_transport_shutdown(struct kube_transport *transport);

/* No exchange may still exist. Accepts NULL. */
void kube_transport_free(struct kube_transport *transport);

uint64_t kube_transport_connections(const struct kube_transport *transport);

/* The request. Strings and body are borrowed until the exchange is freed; the identity is
 * referenced. */
struct kube_request {
	const char *method;
	const char *path; /* with the query; relative to the server's URL */
	const char *content_type;
	const char *accept; /* NULL is application/json */
	const void *body;
	size_t body_len;
	size_t answer_max;
	bool stream; /* read the answer as it arrives, buffering at most answer_max */

	/* With `stream`: the server is not read while this much is unread; 0: it always is. A
	 * piece that arrives may still exceed it. */
	size_t pause_at;
	bool keep_fields; /* keep Content-Type and Warning for kube_exchange_field() */
};

int kube_exchange_new(struct kube_transport *transport, const struct kube_request *request,
		      struct kube_identity *identity, struct kube_exchange **ret,
		      struct cairn_err *err);

/* Hands the exchange to the transport. Call it once. */
void kube_exchange_start(struct kube_exchange *exchange);

/* Waits until the answer is complete.
 *
 * CAIRN_UNAVAILABLE  no connection, or it broke
 * CAIRN_NO_SPACE     the answer is over its limit
 * or the codes of kube_deadline_check()
 */
int kube_exchange_wait(struct kube_exchange *exchange, const struct kube_deadline *patience,
		       struct cairn_err *err);

/* Waits until the status of the answer has arrived. */
int kube_exchange_wait_head(struct kube_exchange *exchange, const struct kube_deadline *patience,
			    struct cairn_err *err);

/* Waits for bytes of a streamed answer and moves them to `into`, which must be empty.
 * Returns 1 with bytes, 0 at the end of a complete answer, or an error code. */
int kube_exchange_read(struct kube_exchange *exchange, const struct kube_deadline *patience,
		       uint64_t until_ns, struct cairn_buf *into, struct cairn_err *err);

/* Wakes the waiting caller, which gets CAIRN_CANCELLED. From any thread. */
void kube_exchange_cancel(struct kube_exchange *exchange);

/* Valid after the wait. */
int kube_exchange_http(const struct kube_exchange *exchange); /* 0 without an answer */
bool kube_exchange_retry_after(const struct kube_exchange *exchange, uint64_t *ret_ms);

/* The i-th kept header field of the answer, as a line "Name: value"; NULL after the last.
 * Borrowed. */
const char *kube_exchange_field(const struct kube_exchange *exchange, size_t i);
struct cairn_buf *kube_exchange_body(struct kube_exchange *exchange);

/* True if no byte of the request has reached a server. */
bool kube_exchange_unsent(const struct kube_exchange *exchange);

/* Aborts the exchange if it is still running. Accepts NULL. */
void kube_exchange_free(struct kube_exchange *exchange);
CAIRN_DEFINE_CLEANUP(struct kube_exchange, kube_exchange_free);

#endif
