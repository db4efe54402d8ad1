/* SPDX-License-Identifier: Apache-2.0 */

#include "net/stream.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "net/grpc/relay_impl.h"

static void serve_task(struct net_task *task);

void net_stream_init(struct net_stream *stream, const struct net_stream_hooks *hooks,
		     struct net_loop *loop, struct net_account *account)
{
	stream->hooks = hooks;
	atomic_init(&stream->refs, 1);
	stream->loop = loop;
	stream->account = account;
	stream->task.run = serve_task;
	net_fields_init(&stream->fields);
	pthread_mutex_init(&stream->lock, NULL);
	cairn_cond_init(&stream->changed);
}

struct net_stream *net_stream_ref(struct net_stream *stream)
{
	atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
	return stream;
}

void net_stream_unref(struct net_stream *stream)
{
	/* acq_rel: destroy() sees what every other holder wrote before it let go. */
	if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) == 1)
		stream->hooks->destroy(stream);
}

void net_stream_charge(struct net_stream *stream, size_t n)
{
	atomic_fetch_add_explicit(&stream->account->bytes, n, memory_order_relaxed);
}

void net_stream_uncharge(struct net_stream *stream, size_t n)
{
	atomic_fetch_sub_explicit(&stream->account->bytes, n, memory_order_relaxed);
}

struct net_msg *net_msg_new(size_t cap)
{
	struct net_msg *msg = cairn_alloc(sizeof(*msg) + cap);

	if (msg)
		*msg = (struct net_msg){.cap = cap};
	return msg;
}

void net_stream_free_msg(struct net_stream *stream, struct net_msg *msg)
{
	if (msg)
		net_stream_uncharge(stream, msg->cap);
	free(msg);
}

static void drop_received(struct net_stream *stream)
{
	while (stream->in_head) {
		struct net_msg *msg = stream->in_head;

		stream->in_head = msg->next;
		net_stream_free_msg(stream, msg);
	}
	stream->in_tail = NULL;
	stream->in_bytes = 0;
}

static void clear_out(struct net_stream *stream)
{
	net_stream_uncharge(stream, stream->out.bytes);
	net_outq_clear(&stream->out);
}

void net_stream_done(struct net_stream *stream)
{
	drop_received(stream);
	clear_out(stream);
	net_stream_free_msg(stream, stream->building);
	net_stream_free_msg(stream, stream->current);
	net_outq_done(&stream->out);
	net_fields_done(&stream->fields);
	free(stream->text);
	pthread_cond_destroy(&stream->changed);
	pthread_mutex_destroy(&stream->lock);
}

void net_stream_kick(struct net_stream *stream)
{
	if (stream->posted || stream->detached) /* the task is one link: it is in one list once */
		return;
	stream->posted = true;
	net_stream_ref(stream);
	net_loop_post(stream->loop, &stream->task);
}

static void serve_task(struct net_task *task)
{
	struct net_stream *stream =
		(struct net_stream *)(void *)((char *)task - offsetof(struct net_stream, task));

	/* Before serving: what is added meanwhile posts the task again. */
	pthread_mutex_lock(&stream->lock);
	stream->posted = false;
	pthread_mutex_unlock(&stream->lock);
	stream->hooks->service(stream);
	net_stream_unref(stream);
}

void net_stream_set_over(struct net_stream *stream, int code, const char *text, bool drop)
{
	cairn_scoped_lock(&stream->lock);
	if (!stream->over) { /* the first reason is the cause; later ones follow from it */
		stream->over = true;
		stream->code = code;
		stream->text = text ? cairn_strdup(text) : NULL;
	}
	if (drop)
		drop_received(stream);
	clear_out(stream);
	stream->in_end = true;
	pthread_cond_broadcast(&stream->changed);
	if (stream->relay_in)
		net_relay_poke(stream->relay_in);
	if (stream->relay_out)
		net_relay_poke(stream->relay_out);
}

int net_stream_over_code(const struct net_stream *stream, struct cairn_err *err)
{
	return cairn_err_set(err, stream->code, "%s",
			     stream->text ? stream->text : cairn_code_name(stream->code));
}

bool net_stream_wait(struct net_stream *stream, uint64_t end_ns)
{
	return cairn_cond_wait_until(&stream->changed, &stream->lock, end_ns);
}

size_t net_stream_sendable(struct net_stream *stream, size_t max, bool *ret_end)
{
	cairn_scoped_lock(&stream->lock);
	size_t n = stream->out.bytes < max ? stream->out.bytes : max;

	*ret_end = stream->out_end && n == stream->out.bytes;
	return n;
}

size_t net_stream_send_limit(const struct net_stream *stream)
{
	size_t all = atomic_load_explicit(&stream->account->bytes, memory_order_relaxed);

	if (all > NET_CROWD_BYTES && stream->send_max > NET_SEND_CROWDED)
		return NET_SEND_CROWDED;
	return stream->send_max;
}

void net_stream_take(struct net_stream *stream, uint8_t *out, size_t n)
{
	bool wake;

	pthread_mutex_lock(&stream->lock);
	net_outq_take(&stream->out, out, n);
	stream->taken += n;
	net_stream_uncharge(stream, n);
	/* At half: a writer that is woken for every frame costs a switch of threads for each. */
	wake = stream->waiting && stream->out.bytes <= net_stream_send_limit(stream) / 2;
	pthread_mutex_unlock(&stream->lock);
	if (wake) /* after unlocking: the woken thread takes the lock at once */
		pthread_cond_broadcast(&stream->changed);
	if (stream->relay_out)
		net_relay_drained(stream->relay_out);
}

bool net_stream_rewind(struct net_stream *stream)
{
	size_t before = stream->out.bytes;

	if (!net_outq_rewind(&stream->out))
		return false;
	net_stream_charge(stream, stream->out.bytes - before);
	return true;
}

int net_stream_await_room(struct net_stream *stream, uint64_t end_ns, struct cairn_err *err)
{
	bool in_time = true;

	while (!stream->over && stream->out.bytes >= net_stream_send_limit(stream)) {
		if (!in_time)
			return cairn_err_set(err, CAIRN_DEADLINE, "the deadline passed");
		/* What is held back for a fuller frame would otherwise never make room. */
		stream->hold = false;
		net_stream_kick(stream);
		stream->waiting = true;
		in_time = net_stream_wait(stream, end_ns);
		stream->waiting = false;
	}
	return stream->over ? net_stream_over_code(stream, err) : 0;
}

int net_stream_reserve(struct net_stream *stream, size_t max, uint8_t **ret_at,
		       struct cairn_err *err)
{
	cairn_scoped_lock(&stream->lock);
	uint8_t *at;
	int rc;

	if (max > UINT32_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "a message of %zu bytes is too long",
				     max);
	rc = net_stream_await_room(stream, UINT64_MAX, err);
	if (rc != 0)
		return rc;
	at = net_outq_reserve(&stream->out, max + GRPC_PREFIX_BYTES);
	if (!at)
		return cairn_err_nomem(err, "message");
	*ret_at = at + GRPC_PREFIX_BYTES;
	return 0;
}

void net_stream_commit(struct net_stream *stream, size_t n, bool more)
{
	cairn_scoped_lock(&stream->lock);
	struct net_chunk *chunk = stream->out.last;

	grpc_prefix(chunk->data + chunk->fill, (uint32_t)n, false);
	net_outq_commit(&stream->out, n + GRPC_PREFIX_BYTES);
	net_stream_charge(stream, n + GRPC_PREFIX_BYTES);
	if (stream->over) {
		clear_out(stream);
		return;
	}
	stream->hold = more && stream->out.bytes < NET_SEND_CROWDED;
	if (!stream->hold)
		net_stream_kick(stream);
}

void net_stream_commit_none(struct net_stream *stream)
{
	cairn_scoped_lock(&stream->lock);
	net_outq_commit(&stream->out, 0);
}
