/* SPDX-License-Identifier: Apache-2.0 */

/* A client's call as its caller sees it. */

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/grpc/channel.h"
#include "net/grpc/grpc_text.h"
#include "net/grpc/gunzip.h"

static int grpc_rpc_fill(struct net_rpc *rpc, const struct net_rpc_options *o,
			 struct cairn_err *err)
{
	uint64_t now = cairn_monotonic_ns();

	if (!grpc_path_valid(o->path, strlen(o->path)))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a method", o->path);
	for (size_t i = 0; i < o->n_metadata; i++) {
		const struct net_metadata_entry *e = &o->metadata[i];
		int rc = net_fields_add_checked(&rpc->request, e->name, e->value, e->len, err);

		if (rc != 0)
			return rc;
	}
	rpc->deadline_ns = UINT64_MAX;
	if (o->timeout_ms != 0 && o->timeout_ms < UINT64_MAX / CAIRN_NS_PER_MS)
		rpc->deadline_ns = now + o->timeout_ms * CAIRN_NS_PER_MS;
	if (o->grace_ms < UINT64_MAX / CAIRN_NS_PER_MS / 2)
		rpc->grace_ns = o->grace_ms * CAIRN_NS_PER_MS;
	rpc->wait_for_ready = o->wait_for_ready;
	rpc->identity_only = o->identity_only;
	memcpy(rpc->path, o->path, strlen(o->path) + 1);
	return 0;
}

static void grpc_rpc_enlist(struct net_channel *ch, struct net_rpc *rpc)
{
	cairn_scoped_lock(&ch->lock);
	rpc->all_next = ch->rpcs;
	if (ch->rpcs)
		ch->rpcs->all_prev = rpc;
	ch->rpcs = rpc;
}

int net_rpc_start(struct net_channel *channel, const struct net_rpc_options *options,
		  struct net_rpc **ret, struct cairn_err *err)
{
	struct net_rpc *rpc = cairn_calloc(1, sizeof(*rpc) + strlen(options->path) + 1);
	int rc;

	if (!rpc)
		return cairn_err_nomem(err, "call");
	net_stream_init(&rpc->s, &net_rpc_hooks, channel->loop, &channel->account);
	rpc->channel = channel;
	atomic_fetch_add(&channel->refs, 1);
	rpc->s.recv_max = channel->limits.stream_recv_bytes;
	rpc->s.send_max = channel->limits.stream_send_bytes;
	rpc->s.out.keep = true;
	grpc_deframer_init(&rpc->s.deframer, channel->limits.message_bytes);
	net_fields_init(&rpc->request);
	net_fields_init(&rpc->headers);
	net_fields_init(&rpc->trailers);
	grpc_rpc_enlist(channel, rpc);
	rc = grpc_rpc_fill(rpc, options, err);
	if (rc != 0) {
		net_stream_unref(&rpc->s);
		return rc;
	}
	*ret = rpc;
	return 0;
}

void net_rpc_cancel(struct net_rpc *rpc)
{
	cairn_scoped_lock(&rpc->s.lock);
	rpc->cancel = true;
	net_stream_kick(&rpc->s);
}

void net_rpc_free(struct net_rpc *rpc)
{
	if (!rpc)
		return;
	pthread_mutex_lock(&rpc->s.lock);
	if (!rpc->s.over && !rpc->cancel) {
		rpc->cancel = true;
		net_stream_kick(&rpc->s);
	}
	pthread_mutex_unlock(&rpc->s.lock);
	net_stream_unref(&rpc->s);
}

static void end_sending(struct net_rpc *rpc)
{
	cairn_scoped_lock(&rpc->s.lock);
	rpc->s.out_end = true;
	rpc->s.hold = false;
	net_stream_kick(&rpc->s);
}

int net_rpc_send(struct net_rpc *rpc, const void *data, size_t n, bool last, struct cairn_err *err)
{
	uint8_t *at;
	int rc = net_stream_reserve(&rpc->s, n, &at, err);

	if (rc != 0)
		return rc;
	if (n > 0)
		memcpy(at, data, n);
	net_stream_commit(&rpc->s, n, last);
	if (last)
		end_sending(rpc);
	return 0;
}

int net_rpc_send_end(struct net_rpc *rpc, struct cairn_err *err)
{
	(void)err;
	end_sending(rpc);
	return 0;
}

/* Sends a call that was only started. Called when its caller begins to wait. */
static void grpc_rpc_push(struct net_rpc *rpc)
{
	cairn_scoped_lock(&rpc->s.lock);
	if (!rpc->pushed) {
		rpc->pushed = true;
		net_stream_kick(&rpc->s);
	}
}

int net_rpc_recv(struct net_rpc *rpc, const uint8_t **ret_data, size_t *ret_len,
		 struct cairn_err *err)
{
	int rc;

	grpc_rpc_push(rpc);
	rc = net_stream_recv(&rpc->s, err);
	if (rc != 1)
		return rc;
	if (rpc->s.current->compressed) {
		if (!rpc->gzip)
			return cairn_err_set(err, CAIRN_INTERNAL,
					     "a compressed message without grpc-encoding");
		rc = net_gunzip_current(&rpc->s, err);
		if (rc != 0)
			return rc;
	}
	*ret_data = rpc->s.current->data;
	*ret_len = rpc->s.current->len;
	return 1;
}

int net_rpc_headers(struct net_rpc *rpc, struct cairn_err *err)
{
	grpc_rpc_push(rpc);
	cairn_scoped_lock(&rpc->s.lock);
	while (!rpc->headers_here && !rpc->s.over)
		net_stream_wait(&rpc->s, UINT64_MAX);
	if (rpc->headers_here || rpc->s.code == 0)
		return 0;
	return net_stream_over_code(&rpc->s, err);
}

const char *net_rpc_metadata(const struct net_rpc *rpc, const char *name, size_t *ret_len)
{
	return net_fields_get(&rpc->headers, name, ret_len);
}

const char *net_rpc_trailer(const struct net_rpc *rpc, const char *name, size_t *ret_len)
{
	return net_fields_get(&rpc->trailers, name, ret_len);
}

static int take_one(struct net_rpc *rpc, uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	cairn_auto_free uint8_t *copy = NULL;
	const uint8_t *data = NULL;
	size_t n = 0, n2;
	int rc = net_rpc_recv(rpc, &data, &n, err);

	if (rc == 0)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "the server sent no message");
	if (rc < 0)
		return rc;
	copy = cairn_alloc(n + 1);
	if (!copy)
		return cairn_err_nomem(err, "response");
	if (n > 0)
		memcpy(copy, data, n);
	rc = net_rpc_recv(rpc, &data, &n2, err);
	if (rc == 1)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "the server sent two messages");
	if (rc == 0) {
		*ret_data = cairn_take(copy);
		*ret_len = n;
	}
	return rc;
}

int net_rpc_request(struct net_channel *channel, const struct net_rpc_options *options,
		    const void *request, size_t n, struct net_rpc **ret, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	int rc = net_rpc_start(channel, options, &rpc, err);

	if (rc == 0)
		rc = net_rpc_send(rpc, request, n, true, err);
	if (rc == 0)
		*ret = cairn_take(rpc);
	return rc;
}

int net_rpc_unary(struct net_channel *channel, const struct net_rpc_options *options,
		  const void *request, size_t n, uint8_t **ret_data, size_t *ret_len,
		  struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	int rc = net_rpc_request(channel, options, request, n, &rpc, err);

	if (rc == 0)
		rc = take_one(rpc, ret_data, ret_len, err);
	return rc;
}
