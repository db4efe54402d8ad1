/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/forward.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/client_impl.h"
#include "kube/credentials.h"
#include "kube/deadline.h"
#include "kube/identity.h"
#include "kube/transport.h"

/* A piece from libcurl is at most this large, and arrives beyond the limit of unread bytes. */
#define PIECE_MAX (1U << 20)

struct kube_forward {
	struct kube_exchange *exchange;
	struct kube_deadline patience; /* of reading */
};

/* Sends it once. Returns 1 if the server rejects our credentials and there are newer ones. */
static int forward_try(struct kube_client *client, const struct kube_request *request,
		       const struct kube_deadline *patience, struct kube_exchange **ret,
		       struct cairn_err *err)
{
	cairn_cleanup(kube_exchange_freep) struct kube_exchange *exchange = NULL;
	cairn_cleanup(kube_identity_unrefp) struct kube_identity *identity = NULL;
	uint64_t waited = 0;
	int rc = kube_throttle_pass(&client->throttle, patience, &waited, err);

	atomic_fetch_add(&client->limited_ns, waited);
	if (!rc)
		rc = kube_credentials_get(client->credentials, patience, &identity, err);
	if (!rc)
		rc = kube_exchange_new(client->transport, request, identity, &exchange, err);
	if (rc)
		return rc;
	atomic_fetch_add(&client->requests, 1);
	kube_exchange_start(exchange);
	rc = kube_exchange_wait_head(exchange, patience, err);
	if (rc)
		return rc;
	if (kube_exchange_http(exchange) == 401)
		return kube_credentials_refused(client->credentials, identity)
			       ? 1
			       : cairn_err_set(err, CAIRN_UNAVAILABLE,
					       "the API server rejects this server's credentials");
	*ret = cairn_take(exchange);
	return 0;
}

int kube_forward_open(struct kube_client *client, const struct kube_forward_request *r,
		      const struct kube_call *how, struct kube_forward **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_forward_freep) struct kube_forward *f = cairn_calloc(1, sizeof(*f));
	const struct kube_request request = {
		.method = r->method,
		.path = r->path,
		.accept = r->accept,
		.content_type = r->content_type,
		.body = r->body,
		.body_len = r->body_len,
		.answer_max = KUBE_FORWARD_UNREAD_MAX + PIECE_MAX,
		.pause_at = KUBE_FORWARD_UNREAD_MAX,
		.stream = true,
		.keep_fields = true,
	};
	struct kube_deadline patience =
		kube_deadline_of(how, client->timeout_ms, &client->shutdown);
	int rc;

	if (!f)
		return cairn_err_nomem(err, "request");
	rc = forward_try(client, &request, &patience, &f->exchange, err);
	if (rc == 1)
		rc = forward_try(client, &request, &patience, &f->exchange, err);
	if (rc == 1)
		rc = cairn_err_set(err, CAIRN_UNAVAILABLE,
				   "the API server rejects this server's credentials");
	if (rc)
		return rc;
	f->patience = patience;
	f->patience.deadline_ns = UINT64_MAX;
	*ret = cairn_take(f);
	return 0;
}

int kube_forward_http(const struct kube_forward *forward)
{
	return kube_exchange_http(forward->exchange);
}

const char *kube_forward_field(const struct kube_forward *forward, size_t i)
{
	return kube_exchange_field(forward->exchange, i);
}

uint64_t kube_forward_retry_s(const struct kube_forward *forward)
{
	uint64_t ms = 0;

	return kube_exchange_retry_after(forward->exchange, &ms) ? ms / 1000 : 0;
}

int kube_forward_read(struct kube_forward *forward, struct cairn_buf *into, struct cairn_err *err)
{
	return kube_exchange_read(forward->exchange, &forward->patience, UINT64_MAX, into, err);
}

int kube_forward_read_all(struct kube_forward *forward, struct cairn_buf *into,
			  struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf piece = CAIRN_BUF_INIT(KUBE_FORWARD_UNREAD_MAX + PIECE_MAX);
	int more;

	while ((more = kube_forward_read(forward, &piece, err)) > 0) {
		cairn_buf_add(into, piece.data, piece.len);
		cairn_buf_reset(&piece);
	}
	return more;
}

void kube_forward_free(struct kube_forward *forward)
{
	if (!forward)
		return;
	kube_exchange_free(forward->exchange);
	free(forward);
}
