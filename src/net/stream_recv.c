/* SPDX-License-Identifier: Apache-2.0 */

/* The receiving half of a stream: bytes become messages, messages wait. */

#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "net/grpc/relay_impl.h"
#include "net/limit_events.h"
#include "net/stream.h"

#define FIRST_ROOM (4U << 10) /* allocated on the announced length; more as bytes arrive */

static bool grow_building(struct net_stream *stream, size_t need)
{
	struct net_msg *msg = stream->building, *bigger;
	size_t length = stream->deframer.length, cap;

	if (need <= msg->cap)
		return true;
	/* Only as bytes arrive: an announced length alone takes no memory. */
	cap = msg->cap * 2 > need ? msg->cap * 2 : need;
	if (cap > length)
		cap = length;
	bigger = cairn_realloc_array(msg, sizeof(*msg) + cap, 1);
	if (!bigger)
		return false;
	net_stream_charge(stream, cap - bigger->cap);
	bigger->cap = cap;
	stream->building = bigger;
	return true;
}

static bool begin_message(struct net_stream *stream, size_t at_hand)
{
	size_t cap = at_hand > FIRST_ROOM ? at_hand : FIRST_ROOM;

	if (cap > stream->deframer.length)
		cap = stream->deframer.length;
	stream->building = net_msg_new(cap);
	if (!stream->building)
		return false;
	stream->building->compressed = stream->deframer.compressed;
	net_stream_charge(stream, cap);
	return true;
}

/* With the lock held. */
static void stream_recv_append(struct net_stream *stream, struct net_msg *msg)
{
	if (stream->in_tail)
		stream->in_tail->next = msg;
	else
		stream->in_head = msg;
	stream->in_tail = msg;
	stream->in_bytes += msg->len;
}

static void stream_recv_deliver(struct net_stream *stream)
{
	struct net_msg *msg = stream->building;
	bool over;

	stream->building = NULL;
	pthread_mutex_lock(&stream->lock);
	over = stream->over;
	if (!over)
		stream_recv_append(stream, msg);
	pthread_mutex_unlock(&stream->lock);
	if (over)
		net_stream_free_msg(stream, msg);
	else
		pthread_cond_broadcast(&stream->changed);
}

static bool over_budget(const struct net_stream *stream)
{
	return atomic_load_explicit(&stream->account->bytes, memory_order_relaxed) >
	       stream->account->max;
}

static bool add_body(struct net_stream *stream, const uint8_t *body, size_t n)
{
	struct net_msg *msg;

	if (!grow_building(stream, stream->building->len + n))
		return false;
	msg = stream->building;
	memcpy(msg->data + msg->len, body, n);
	msg->len += n;
	return true;
}

static void stream_recv_give_up(struct net_stream *stream, int code, const char *text)
{
	stream->discard = true;
	stream->hooks->broken(stream, code, text);
}

static void stream_recv_over_budget(struct net_stream *stream)
{
	net_limit_count(NET_LIMIT_BUFFERED_BYTES);
	stream_recv_give_up(stream, CAIRN_NO_SPACE, "too much is buffered here");
}

void net_stream_data(struct net_stream *stream, const uint8_t *data, size_t n)
{
	const uint8_t *body;
	size_t body_n;

	if (stream->relay_in) {
		net_relay_data(stream->relay_in, data, n);
		return;
	}
	while (!stream->discard) {
		switch (grpc_deframe(&stream->deframer, &data, &n, &body, &body_n)) {
		case GRPC_MORE:
			return;
		case GRPC_BEGIN:
			if (over_budget(stream) || !begin_message(stream, n))
				stream_recv_over_budget(stream);
			break;
		case GRPC_BODY:
			if (over_budget(stream) || !add_body(stream, body, body_n))
				stream_recv_over_budget(stream);
			break;
		case GRPC_END:
			stream_recv_deliver(stream);
			break;
		case GRPC_BAD_FLAG:
			stream_recv_give_up(stream, CAIRN_INTERNAL, "bytes that are not a message");
			break;
		case GRPC_TOO_LARGE:
			net_limit_count(NET_LIMIT_MESSAGE_BYTES);
			stream_recv_give_up(stream, CAIRN_NO_SPACE,
					    "message is larger than the limit");
			break;
		}
	}
}

/* With the lock held. */
static struct net_msg *stream_recv_pop(struct net_stream *stream)
{
	struct net_msg *msg = stream->in_head;

	if (!msg)
		return NULL;
	stream->in_head = msg->next;
	if (!stream->in_head)
		stream->in_tail = NULL;
	stream->in_bytes -= msg->len;
	return msg;
}

struct net_msg *net_stream_pop(struct net_stream *stream)
{
	cairn_scoped_lock(&stream->lock);
	return stream_recv_pop(stream);
}

int net_stream_recv(struct net_stream *stream, struct cairn_err *err)
{
	cairn_scoped_lock(&stream->lock);
	struct net_msg *msg;

	net_stream_replace_current(stream, NULL);
	/* The peer may answer only to what is still held back. */
	if (stream->hold && !stream->in_head) {
		stream->hold = false;
		net_stream_kick(stream);
	}
	while (!stream->in_head && !stream->in_end && !stream->over)
		net_stream_wait(stream, UINT64_MAX);
	msg = stream_recv_pop(stream);
	if (!msg)
		return stream->over && stream->code != 0 ? net_stream_over_code(stream, err) : 0;
	/* The loop's thread returns the window that the peer may use again. */
	if (stream->uncredited > 0 && stream->in_bytes < stream->recv_max)
		net_stream_kick(stream);
	stream->current = msg;
	return 1;
}

void net_stream_replace_current(struct net_stream *stream, struct net_msg *msg)
{
	net_stream_free_msg(stream, stream->current);
	if (msg)
		net_stream_charge(stream, msg->cap);
	stream->current = msg;
}
