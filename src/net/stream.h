/* SPDX-License-Identifier: Apache-2.0 */

/* One HTTP/2 stream: what a server's call and a client's call have in common.
 *
 * Two threads share a stream. The loop's thread moves bytes between the
 * connection and the two queues; one other thread, the handler's or the
 * caller's, takes messages from one queue and writes them to the other, and
 * waits on `changed` when it must. `lock` guards the fields that both use; the
 * others belong to the loop's thread. The lock is never held across a call into
 * nghttp2.
 *
 * A stream is reference-counted; references are held by its connection, the
 * other thread, and a task posted to the loop.
 */
#ifndef CAIRN_NET_STREAM_H
#define CAIRN_NET_STREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/grpc/grpc_frame.h"
#include "net/header_fields.h"
#include "net/loop.h"
#include "net/outq.h"

struct cairn_err;
struct net_conn;
struct net_relay;
struct net_stream;

/* Bytes in the queues of all streams that share a budget. */
struct net_account {
	_Atomic size_t bytes;
	size_t max;
};

/* When the queues together hold more than this, senders get only
 * NET_SEND_CROWDED bytes each: the large buffer is for one fast peer, and must
 * not be multiplied by many slow peers. */
#define NET_CROWD_BYTES  (8U << 20)
#define NET_SEND_CROWDED (64U << 10)

struct net_msg {
	struct net_msg *next;
	size_t len, cap;
	bool compressed;
	uint8_t data[];
};

/* Differences between the two sides; all called on the loop's thread. */
struct net_stream_hooks {
	/* The fields being received grew by `more` bytes; false when they must be
	 * dropped. May be NULL. */
	bool (*fields_grew)(struct net_stream *stream, size_t more);
	/* A header block is complete; `end` when the peer ended the stream with it. */
	void (*headers)(struct net_stream *stream, bool end);
	/* The peer ended its side after DATA. */
	void (*peer_end)(struct net_stream *stream);
	/* The peer violated the gRPC protocol, or a limit. */
	void (*broken)(struct net_stream *stream, int code, const char *text);
	/* The other thread has called net_stream_kick(). */
	void (*service)(struct net_stream *stream);
	/* All of our messages were sent: sets the flags of the last DATA frame. */
	void (*sent_all)(struct net_stream *stream, uint32_t *flags);
	/* nghttp2 has closed the stream, which no longer has a connection. `why` is
	 * set if the reason is the end of the connection. */
	void (*closed)(struct net_stream *stream, uint32_t h2_error, const struct cairn_err *why);
	/* The last reference was released. */
	void (*destroy)(struct net_stream *stream);
};

struct net_stream {
	const struct net_stream_hooks *hooks;
	_Atomic unsigned refs;
	struct net_loop *loop;
	struct net_account *account;
	size_t recv_max; /* complete messages that may wait */
	size_t send_max; /* bytes that may wait for the peer */

	/* Only on the loop's thread. */
	struct net_conn *conn; /* NULL before the start and after the end */
	struct net_stream *prev, *next;
	int32_t id;
	struct net_fields fields; /* the header block being received */
	size_t fields_counted;
	size_t fields_held; /* memory of `fields` that was reported */
	bool fields_over;
	bool fields_refused; /* dropped: all requests together take too much */
	bool fields_bad;
	struct grpc_deframer deframer;
	struct net_msg *building;
	bool deferred; /* nghttp2 waits for net_session_resume() */
	bool peer_ended;
	bool reset_sent;                    /* we sent RST_STREAM */
	bool discard;                       /* discard further input */
	uint64_t request_by_ns;             /* when the request must be complete; 0 for no limit */
	uint64_t taken_mark, taken_mark_ns; /* of the stall check */
	struct net_relay *relay_in;         /* receives the input of this stream */
	struct net_relay *relay_out;        /* is notified when output was sent */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	struct net_task task;
	bool posted;   /* the task was posted */
	bool detached; /* the loop may have been freed: post nothing */
	bool over;     /* the call has ended; `code` and `text` say why */
	bool out_end;  /* nothing will be written after what is queued */
	bool in_end;   /* nothing will be received after what is queued */
	bool waiting;  /* the other thread waits in a send */
	bool hold;     /* it announced that more follows at once */
	bool woken;    /* net_stream_wake() */
	int code;
	char *text;
	struct net_outq out;
	uint64_t taken; /* total bytes that the connection has taken */
	struct net_msg *in_head, *in_tail;
	size_t in_bytes;
	size_t uncredited; /* received, but the window not yet returned */

	/* Only on the other thread. */
	struct net_msg *current; /* lent to the handler */
	size_t reserved;
};

void net_stream_init(struct net_stream *stream, const struct net_stream_hooks *hooks,
		     struct net_loop *loop, struct net_account *account);
struct net_stream *net_stream_ref(struct net_stream *stream);
void net_stream_unref(struct net_stream *stream);

/* Frees everything that the stream owns; called by destroy hooks. */
void net_stream_done(struct net_stream *stream);

/* Counts queued bytes in the account. From any thread. */
void net_stream_charge(struct net_stream *stream, size_t n);
void net_stream_uncharge(struct net_stream *stream, size_t n);

/* --- the loop's side --- */

/* Bytes of DATA arrived. */
void net_stream_data(struct net_stream *stream, const uint8_t *data, size_t n);

/* How many of at most `max` bytes may be sent now, and whether they are the
 * last. */
size_t net_stream_sendable(struct net_stream *stream, size_t max, bool *ret_end);
void net_stream_take(struct net_stream *stream, uint8_t *out, size_t n);

/* The first received message, owned by the caller; NULL when there is none. */
struct net_msg *net_stream_pop(struct net_stream *stream);
void net_stream_free_msg(struct net_stream *stream, struct net_msg *msg);

/* How many bytes may be queued before a sender should wait. */
size_t net_stream_send_limit(const struct net_stream *stream);

/* Makes everything that was taken unsent again; false when some of it was
 * dropped. Call with the lock held. */
bool net_stream_rewind(struct net_stream *stream);

/* Ends the call for the other thread, which sees `code`. Only the first end has
 * an effect. With `drop`, received messages are discarded. */
void net_stream_set_over(struct net_stream *stream, int code, const char *text, bool drop);

/* --- the other thread's side --- */

/* Schedules a call of the service hook; call with the lock held. */
void net_stream_kick(struct net_stream *stream);

/* See net_call_reserve() and related functions. */
int net_stream_reserve(struct net_stream *stream, size_t max, uint8_t **ret_at,
		       struct cairn_err *err);
void net_stream_commit(struct net_stream *stream, size_t n, bool more);
void net_stream_commit_none(struct net_stream *stream);

/* 1: a message, in stream->current; 0: the end; otherwise the code with which
 * the call ended. */
int net_stream_recv(struct net_stream *stream, struct cairn_err *err);

/* Replaces the current message. */
void net_stream_replace_current(struct net_stream *stream, struct net_msg *msg);

/* Waits for a change, with the lock held, at most until `end_ns` of the
 * monotonic clock (UINT64_MAX: no limit). False on timeout. */
bool net_stream_wait(struct net_stream *stream, uint64_t end_ns);

/* Waits, with the lock held, until less is queued than the limit; see
 * net_call_await_room(). */
int net_stream_await_room(struct net_stream *stream, uint64_t end_ns, struct cairn_err *err);

/* Fills err with the reason of the end; with the lock held. Returns the code. */
int net_stream_over_code(const struct net_stream *stream, struct cairn_err *err);

struct net_msg *net_msg_new(size_t cap);

#endif
