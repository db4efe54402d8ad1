/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the server's files. */
#ifndef CAIRN_NET_SERVER_IMPL_H
#define CAIRN_NET_SERVER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "net/conn.h"
#include "net/grpc/grpc_server.h"
#include "net/stream.h"
#include "net/workers.h"

struct net_health;
struct net_listener;
struct net_methods;
struct net_reflection;

/* The connections of one loop. */
struct net_part {
	struct net_server *server;
	struct net_loop *loop;
	struct net_conn *conns;
	uint32_t n_conns;
	uint32_t sweep_at; /* with this many, displaced ones are looked for */
	struct net_timer tick;
	uint64_t tick_ms;
	struct net_task hand_over; /* passes the calls of this turn to the workers, at its end */
	struct net_work *ready, **ready_tail;
	struct net_crowd crowd;

	/* Only in the part for crowds. A thread started by its thread would inherit the
	 * lower priority, so its calls go through the first loop. `passing` belongs to the
	 * loop that the pending task is for. */
	struct net_task pass, passed;
	struct net_work *passing;
	bool is_passing;
};

struct net_server {
	char name[12];
	struct net_limits limits;
	struct net_account account;
	struct net_shares *shares;
	uint64_t held_peak; /* since memory was last released to the system; on the first loop */
	struct net_work trim;
	atomic_bool trimming;
	struct net_part *parts;
	unsigned n_parts; /* the last one has the connections of crowds */
	struct net_listener *listeners;
	struct net_methods *methods;
	struct net_workers *workers;
	struct net_health *health;
	struct net_reflection *reflection;
	void (*call_end)(void *arg, const char *path, int code, uint64_t duration_ns);
	void *call_end_arg;
	bool started;
	bool authenticates;

	_Atomic unsigned next_part;
	_Atomic bool draining;
	_Atomic uint64_t conns_open, conns_total;
	_Atomic uint64_t calls_open, calls_total, calls_failed;

	pthread_mutex_t lock;
	pthread_cond_t quiet; /* a call or connection ended during a drain */
};

/* methods.c: paths and their handlers. */
struct net_methods *net_methods_new(void);
void net_methods_free(struct net_methods *methods);
int net_methods_add(struct net_methods *methods, const struct net_method *method,
		    struct cairn_err *err);
const struct net_method *net_methods_find(const struct net_methods *methods, const char *path,
					  size_t n);
void net_methods_each(const struct net_methods *methods, void (*visit)(void *arg, const char *path),
		      void *arg);

/* listener.c */
void net_listeners_start(struct net_server *server); /* on the first loop's thread */
void net_listeners_free(struct net_server *server);  /* likewise once started */
/* Takes over a connected socket, or closes it when there is no slot for it. False if it closed
 * the socket, or the connection belongs to a crowd. */
bool net_server_admit(struct net_server *server, int fd, struct net_tls *tls);

/* grpc_server_part.c: the timer of a part, which checks its connections. */
void net_part_tick(void *arg);
/* Takes over `fd` and `peer`; from any thread. */
void net_server_take(struct net_server *server, int fd, struct net_tls *tls,
		     struct net_shared_peer *peer);

/* grpc_server.c: a call or a connection has ended, for which net_server_drain() may wait. */
void net_server_went_quiet(struct net_server *server);

/* call_io.c: streams of requests. */
struct net_stream *net_call_new_stream(struct net_conn *conn);
void net_call_part_init(struct net_part *part, bool crowd);
/* Ends a call with a status, from its loop. */
void net_call_abort(struct net_stream *stream, int code, const char *text);

#endif
