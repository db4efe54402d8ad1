/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/call.h"

#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/grpc/call_impl.h"
#include "net/grpc/grpc_text.h"
#include "net/grpc/gunzip.h"
#include "net/peer.h"

int net_call_recv(struct net_call *call, const uint8_t **ret_data, size_t *ret_len,
		  struct cairn_err *err)
{
	int rc = net_stream_recv(&call->s, err);

	if (rc != 1)
		return rc;
	if (call->s.current->compressed) {
		if (!call->gzip)
			return cairn_err_set(err, CAIRN_INTERNAL,
					     "a compressed message without grpc-encoding");
		rc = net_gunzip_current(&call->s, err);
		if (rc != 0)
			return rc;
	}
	*ret_data = call->s.current->data;
	*ret_len = call->s.current->len;
	return 1;
}

int net_call_reserve(struct net_call *call, size_t max, uint8_t **ret_at, struct cairn_err *err)
{
	return net_stream_reserve(&call->s, max, ret_at, err);
}

int net_call_await_room(struct net_call *call, uint64_t end_ns, struct cairn_err *err)
{
	cairn_scoped_lock(&call->s.lock);
	return net_stream_await_room(&call->s, end_ns, err);
}

void net_call_commit(struct net_call *call, size_t n, bool more)
{
	call->sent++;
	net_stream_commit(&call->s, n, more);
}

void net_call_commit_none(struct net_call *call)
{
	net_stream_commit_none(&call->s);
}

/* The answer of a unary call leaves together with its status. */
static bool status_follows(const struct net_call *call)
{
	return call->method->kind == NET_UNARY || call->method->kind == NET_CLIENT_STREAM;
}

int net_call_send(struct net_call *call, const void *data, size_t n, struct cairn_err *err)
{
	uint8_t *at;
	int rc = net_call_reserve(call, n, &at, err);

	if (rc != 0)
		return rc;
	if (n > 0)
		memcpy(at, data, n);
	net_call_commit(call, n, status_follows(call));
	return 0;
}

int net_call_send_headers(struct net_call *call, struct cairn_err *err)
{
	cairn_scoped_lock(&call->s.lock);

	if (call->s.over)
		return net_stream_over_code(&call->s, err);
	call->want_headers = true;
	net_stream_kick(&call->s);
	return 0;
}

const char *net_call_metadata(const struct net_call *call, const char *name, size_t *ret_len)
{
	return net_fields_get(&call->request, name, ret_len);
}

bool net_call_metadata_at(const struct net_call *call, size_t i, const char **ret_name,
			  const char **ret_value, size_t *ret_len)
{
	for (size_t k = 0; k < call->request.n; k++) {
		const struct net_field *field = net_fields_at(&call->request, k);
		const char *name = net_field_name(&call->request, field);

		if (grpc_name_reserved(name, field->name_len) || i-- > 0)
			continue;
		*ret_name = name;
		*ret_value = net_field_value(&call->request, field);
		if (ret_len)
			*ret_len = field->value_len;
		return true;
	}
	return false;
}

int net_call_add_header(struct net_call *call, const char *name, const void *value, size_t n,
			struct cairn_err *err)
{
	if (call->sent > 0 || call->want_headers)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the response headers were already sent");
	return net_fields_add_checked(&call->headers, name, value, n, err);
}

int net_call_add_trailer(struct net_call *call, const char *name, const void *value, size_t n,
			 struct cairn_err *err)
{
	return net_fields_add_checked(&call->trailers, name, value, n, err);
}

int net_call_set_details(struct net_call *call, const void *status, size_t n, struct cairn_err *err)
{
	uint8_t *copy;

	if (n > NET_FIELDS_BYTES_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "status details are too long");
	copy = cairn_memdup(status, n);
	if (!copy && n > 0)
		return cairn_err_nomem(err, "status details");
	free(call->details);
	call->details = copy;
	call->details_len = n;
	return 0;
}

void net_call_clear_trailers(struct net_call *call)
{
	net_fields_done(&call->trailers);
	net_fields_init(&call->trailers);
	free(call->details);
	call->details = NULL;
	call->details_len = 0;
}

const char *net_call_path(const struct net_call *call)
{
	return net_fields_get(&call->request, ":path", NULL);
}

const char *net_call_authority(const struct net_call *call)
{
	return net_fields_get(&call->request, ":authority", NULL);
}

uint64_t net_call_deadline(const struct net_call *call)
{
	return call->deadline_ns;
}

int net_call_check(const struct net_call *call)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&call->s.lock;

	cairn_scoped_lock(lock);
	return call->s.over ? call->s.code : 0;
}

int net_call_sleep(struct net_call *call, uint64_t ms, struct cairn_err *err)
{
	cairn_scoped_lock(&call->s.lock);
	uint64_t end = ms == UINT64_MAX ? UINT64_MAX : cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;

	if (call->s.hold) {
		call->s.hold = false;
		net_stream_kick(&call->s);
	}
	while (!call->s.woken && !call->s.over && net_stream_wait(&call->s, end))
		;
	call->s.woken = false;
	return call->s.over ? net_stream_over_code(&call->s, err) : 0;
}

void net_call_wake(struct net_call *call)
{
	cairn_scoped_lock(&call->s.lock);
	call->s.woken = true;
	pthread_cond_broadcast(&call->s.changed);
}

void net_call_interrupt(struct net_call *call)
{
	cairn_scoped_lock(&call->s.lock);
	call->s.woken = true;
	call->s.in_end = true;
	pthread_cond_broadcast(&call->s.changed);
}

void net_call_trust(struct net_call *call)
{
	net_slot_trust(call->peer->shares, &call->peer->slot, NET_SLOT_KNOWN);
}

const struct net_peer *net_call_peer(const struct net_call *call)
{
	return &call->peer->peer;
}

struct net_loop *net_call_loop(const struct net_call *call)
{
	return call->s.loop;
}

/* --- running --- */

static void call_finish(struct net_call *call, int rc, const struct cairn_err *err)
{
	cairn_scoped_lock(&call->s.lock);

	call->finished = true;
	call->s.out_end = true;
	call->s.hold = false;
	call->status = rc;
	if (rc != 0) {
		call->message = cairn_strdup(err->msg);
		atomic_fetch_add(&call->server->calls_failed, 1);
	}
	if (!call->s.over)
		net_stream_kick(&call->s);
}

static int call_run_handler(struct net_call *call, struct cairn_err *err)
{
	int rc = net_call_check(call);

	if (rc == 0)
		rc = call->method->handler(call, call->method->arg, err);
	if (rc == 0 && status_follows(call) && call->sent != 1)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "the handler sent %s",
				   call->sent ? "more than one message" : "no message");
	/* A code that is not a gRPC status must not become OK or an invalid
	 * number. */
	return rc > 0 || rc < CAIRN_UNAUTHENTICATED ? CAIRN_UNKNOWN : rc;
}

void net_call_run(struct net_work *work)
{
	struct net_call *call =
		(struct net_call *)(void *)((char *)work - offsetof(struct net_call, work));
	struct net_server *server = call->server;
	struct cairn_err err = {0};
	int rc = call_run_handler(call, &err);

	if (server->call_end)
		server->call_end(server->call_end_arg, call->method->path, -rc,
				 cairn_monotonic_ns() - call->started_ns);
	call_finish(call, rc, &err);
	net_stream_unref(&call->s);
}
