/* SPDX-License-Identifier: Apache-2.0 */

#include "client/handle.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/wait.h"
#include "client/client_call.h"
#include "client/error.h"
#include "client/strings.h"
#include "kube/kube_client.h"
#include "net/grpc/grpc_client.h"

/* Limit of a request, most of which is its token. */
#define REQUEST_MAX (CLIENT_TOKEN_MAX + (64U << 10))

/* The first version of the struct ends here. */
#define QUERY_LEAST (offsetof(struct cairn_listing_query, on_retry_arg) + sizeof(void *))

static const size_t strings[CLIENT_QUERY_STRINGS] = {
	offsetof(struct cairn_listing_query, namespace_name),
	offsetof(struct cairn_listing_query, snapshot),
	offsetof(struct cairn_listing_query, base_id),
	offsetof(struct cairn_listing_query, base_snapshot),
};

/* --- creation --- */

static int listing_check(const struct cairn_listing_query *query, struct cairn_err *err)
{
	if (!query->namespace_name)
		return cairn_err_set(err, CAIRN_INVALID, "the namespace is missing");
	if (!query->snapshot)
		return cairn_err_set(err, CAIRN_INVALID, "the snapshot's name is missing");
	if (query->starting_offset > INT64_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the starting offset is too large");
	if (query->max_results > INT32_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the number of results is too large");
	return 0;
}

static bool wants_delta(const struct cairn_listing *l)
{
	return (l->query.base_id || l->query.base_snapshot) && !l->fell_back;
}

static void listing_show(struct cairn_listing *l)
{
	cairn_scoped_lock(&l->lock);
	l->seen = (struct cairn_listing_info){
		.kind = wants_delta(l) ? CAIRN_LISTING_CHANGED : CAIRN_LISTING_ALLOCATED,
		.type = (int)l->cursor.type,
		.fell_back = l->fell_back,
		.capacity = l->cursor.capacity,
		.position = l->cursor.at,
		.blocks = l->cursor.blocks,
		.bytes = l->cursor.bytes,
		.messages = l->cursor.messages,
		.streams = l->cursor.streams,
	};
}

static void listing_init(struct cairn_listing *l, struct cairn_client *client)
{
	l->client = client;
	pthread_mutex_init(&l->lock, NULL);
	cairn_cond_init(&l->changed);
}

static int listing_make(struct cairn_client *client, const struct cairn_listing_query *query,
			struct cairn_listing **ret, struct cairn_err *err)
{
	struct cairn_listing *l = cairn_calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return cairn_err_nomem(err, "listing");
	listing_init(l, client);
	rc = client_struct_copy(&l->query, sizeof(l->query), QUERY_LEAST, query, err);
	if (!rc)
		rc = client_strings_copy(&l->query, strings, CLIENT_QUERY_STRINGS, l->owned, err);
	if (!rc)
		rc = listing_check(&l->query, err);
	if (rc) {
		cairn_listing_free(l);
		return rc;
	}
	client_cursor_init(&l->cursor, l->query.starting_offset, l->query.max_results);
	listing_show(l);
	*ret = l;
	return 0;
}

int cairn_listing_new(struct cairn_client *client, const struct cairn_listing_query *query,
		      struct cairn_listing **ret, struct cairn_client_error *error)
{
	struct cairn_err err = {0};

	return client_error_set(error, listing_make(client, query, ret, &err), &err);
}

/* --- one stream --- */

static void close_stream(struct cairn_listing *l)
{
	struct net_rpc *rpc;

	pthread_mutex_lock(&l->lock);
	rpc = l->rpc;
	l->rpc = NULL;
	pthread_mutex_unlock(&l->lock);
	net_rpc_free(rpc);
	client_link_put(&l->client->links, l->link);
	l->link = NULL;
}

void cairn_listing_free(struct cairn_listing *l)
{
	if (!l)
		return;
	close_stream(l);
	client_route_done(&l->route);
	client_cursor_done(&l->cursor);
	client_strings_done(l->owned, CLIENT_QUERY_STRINGS);
	pthread_cond_destroy(&l->changed);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* Publishes the call to cairn_listing_cancel(). */
static void show_rpc(struct cairn_listing *l, struct net_rpc *rpc)
{
	cairn_scoped_lock(&l->lock);
	l->rpc = rpc;
	if (l->cancelled) /* before there was a call to cancel */
		net_rpc_cancel(rpc);
}

static int send_request(struct cairn_listing *l, const char *token, struct cairn_err *err)
{
	cairn_auto_secret_buf struct cairn_buf request = CAIRN_BUF_INIT(REQUEST_MAX);
	const char *base = l->query.base_id ? l->query.base_id : l->route.base_id;
	struct client_call call = {
		.token = token,
		.namespace_name = l->query.namespace_name,
		.snapshot = l->query.snapshot,
		.base_id = wants_delta(l) ? base : NULL,
		.starting_offset = l->cursor.at,
		.max_results = l->query.max_results,
	};
	struct net_rpc_options options = {.path = client_call_path(&call)};
	struct net_rpc *rpc = NULL;
	int rc;

	client_call_pack(&call, &request);
	rc = cairn_buf_failed(&request)
		     ? cairn_err_set(err, CAIRN_INVALID, "the request is too large")
		     : net_rpc_start(l->link->channel, &options, &rpc, err);
	if (!rc) {
		show_rpc(l, rpc);
		/* Receiving reports the result of the call. */
		(void)net_rpc_send(rpc, request.data, request.len, true, NULL);
	}
	return rc;
}

static bool listing_cancelled(struct cairn_listing *l)
{
	cairn_scoped_lock(&l->lock);
	return l->cancelled;
}

/* Cancels calls to Kubernetes when the listing is cancelled. */
static int kube_check(void *arg)
{
	return listing_cancelled(arg) ? CAIRN_CANCELLED : 0;
}

static int listing_open_stream(struct cairn_listing *l, struct cairn_err *err)
{
	cairn_cleanup(client_token_freep) char *token = NULL;
	struct client_place place;
	const struct kube_call how = {.check = kube_check, .check_arg = l};
	int rc = client_route_find(&l->route, l->client, &l->query, wants_delta(l), &how, err);

	if (!rc)
		rc = client_token_get(&l->client->tokens, &how,
				      client_route_audience(&l->route, l->client), l->need, &token,
				      err);
	if (rc)
		return rc;
	place = client_route_place(&l->route, l->client);
	rc = client_link_get(&l->client->links, &place, &l->link, err);
	if (rc)
		return cairn_err_wrap(err, "service '%s'", place.address);
	client_cursor_stream(&l->cursor);
	return send_request(l, token, err);
}

/* --- the sequence of streams --- */

static int listing_end(struct cairn_listing *l, int result, const struct cairn_err *why)
{
	close_stream(l);
	l->ended = true;
	l->result = result;
	if (why)
		l->last = *why;
	return result;
}

/* Sleeps until the time is over or the listing is cancelled. */
static void listing_rest(struct cairn_listing *l, uint64_t ms)
{
	uint64_t until = cairn_after_ms(ms);

	cairn_scoped_lock(&l->lock);
	while (!l->cancelled && cairn_cond_wait_until(&l->changed, &l->lock, until))
		;
}

static bool worth_another(struct cairn_listing *l, int code, uint64_t *ret_wait_ms)
{
	const struct cairn_client_options *o = &l->client->options;
	uint32_t random = 0;

	if (l->query.no_retry)
		return false;
	if (code == CAIRN_UNAUTHENTICATED && o->token && !o->token_fn && !o->token_file)
		return false; /* there is no other token */
	(void)cairn_random_bytes(&random, sizeof(random), NULL);
	return client_retry_failed(&l->retry, code, cairn_monotonic_ns(), random, ret_wait_ms);
}

/* Whether `code` means that changed blocks are unknown, while allocated ones may be known. */
static bool may_fall_back(const struct cairn_listing *l, int code)
{
	switch (code) {
	case CAIRN_UNKNOWN:
	case CAIRN_INVALID:
	case CAIRN_NOT_FOUND:
	case CAIRN_PRECONDITION:
	case CAIRN_UNIMPLEMENTED:
	case CAIRN_INTERNAL:
	case CAIRN_DATA_LOSS:
		return l->query.fall_back && wants_delta(l) && !l->cursor.begun;
	default:
		return false;
	}
}

static void fall_back(struct cairn_listing *l)
{
	uint64_t streams = l->cursor.streams;

	l->fell_back = true;
	client_cursor_done(&l->cursor);
	client_cursor_init(&l->cursor, l->query.starting_offset, l->query.max_results);
	l->cursor.streams = streams; /* of the whole listing */
	client_retry_init(&l->retry, l->retry.patience_ms, cairn_monotonic_ns());
	listing_show(l);
}

/* Handles a failed stream: returns 1 to go on, else the result of the listing. */
static int listing_recover(struct cairn_listing *l, const struct cairn_err *why)
{
	struct cairn_client_error reported;
	uint64_t wait_ms;

	close_stream(l);
	if (listing_cancelled(l)) {
		cairn_err_set(&l->last, CAIRN_CANCELLED, "the listing was cancelled");
		return listing_end(l, CAIRN_CANCELLED, NULL);
	}
	if (client_cursor_at_end(&l->cursor))
		return listing_end(l, 0, NULL); /* it broke after the last possible block */
	if (worth_another(l, why->code, &wait_ms)) {
		l->need = why->code == CAIRN_UNAUTHENTICATED ? CLIENT_TOKEN_REFUSED
							     : CLIENT_TOKEN_FRESH;
		client_error_set(&reported, why->code, why);
		if (l->query.on_retry)
			l->query.on_retry(l->query.on_retry_arg, &reported, wait_ms);
		listing_rest(l, wait_ms);
		return 1;
	}
	if (!may_fall_back(l, why->code))
		return listing_end(l, why->code, why);
	fall_back(l);
	return 1;
}

/* Returns 1 with a message in the cursor, 2 to go on, else the result of the listing. */
static int listing_step(struct cairn_listing *l)
{
	struct cairn_err err = {0};
	const uint8_t *data = NULL;
	size_t n = 0;
	int rc = l->rpc ? 0 : listing_open_stream(l, &err);

	if (!rc)
		rc = net_rpc_recv(l->rpc, &data, &n, &err);
	if (rc == 0)
		return listing_end(l, 0, NULL);
	if (rc < 0) {
		rc = listing_recover(l, &err);
		return rc == 1 ? 2 : rc;
	}
	rc = client_cursor_take(&l->cursor, data, n, &err);
	if (rc)
		return listing_end(l, rc, &err);
	/* Only blocks, or the first message at all, count as progress: a service that sends an
	 * empty message and fails, repeatedly, must not be retried forever. */
	if (l->cursor.n > 0 || l->cursor.messages == 1)
		client_retry_progress(&l->retry, cairn_monotonic_ns());
	listing_show(l);
	return 1;
}

int cairn_listing_next(struct cairn_listing *l, const struct cairn_block **ret_blocks,
		       size_t *ret_n, struct cairn_client_error *error)
{
	uint64_t patience =
		l->query.patience_ms ? l->query.patience_ms : CLIENT_PATIENCE_DEFAULT_MS;
	int rc = 2;

	if (l->ended)
		return client_error_set(error, l->result, &l->last);
	/* The time that the caller spent on the last message does not count. */
	if (l->cursor.streams == 0)
		client_retry_init(&l->retry, patience, cairn_monotonic_ns());
	else if (l->retry.failures == 0)
		l->retry.since_ns = cairn_monotonic_ns();
	while (rc == 2)
		rc = listing_step(l);
	if (rc == 1) {
		*ret_blocks = l->cursor.batch;
		*ret_n = l->cursor.n;
	}
	return rc == 1 ? 1 : client_error_set(error, rc, &l->last);
}

int cairn_listing_each(struct cairn_listing *l, cairn_listing_take_fn *take, void *arg,
		       struct cairn_client_error *error)
{
	const struct cairn_block *blocks = NULL;
	size_t n = 0;
	int rc;

	while ((rc = cairn_listing_next(l, &blocks, &n, error)) == 1) {
		for (size_t i = 0; i < n; i++) {
			int answer = take(arg, &blocks[i]);

			if (answer != 0)
				return answer;
		}
	}
	return rc;
}

void cairn_listing_cancel(struct cairn_listing *l)
{
	cairn_scoped_lock(&l->lock);
	l->cancelled = true;
	if (l->rpc)
		net_rpc_cancel(l->rpc);
	pthread_cond_broadcast(&l->changed);
}

void cairn_listing_info(struct cairn_listing *l, struct cairn_listing_info *ret)
{
	size_t size = ret->size;

	cairn_scoped_lock(&l->lock);
	/* The caller may be compiled against an older or a newer struct. */
	memset(ret, 0, size);
	memcpy(ret, &l->seen, size < sizeof(l->seen) ? size : sizeof(l->seen));
	ret->size = size;
}
