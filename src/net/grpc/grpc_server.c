/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_server.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "net/grpc/grpc_health.h"
#include "net/grpc/grpc_server_impl.h"
#include "net/grpc/reflection.h"

#define TICK_MAX_MS   1000
#define TICK_MIN_MS   10
#define TICK_DRAIN_MS 50

/* --- making and starting --- */

static uint64_t tick_interval(const struct net_limits *l)
{
	const uint64_t times[] = {l->handshake_ms, l->header_ms,        l->request_ms,
				  l->idle_ms,      l->stranger_idle_ms, l->stall_ms,
				  l->keepalive_ms, l->keepalive_wait_ms};
	uint64_t least = TICK_MAX_MS * 4;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		least = times[i] < least ? times[i] : least;
	return least / 4 > TICK_MIN_MS ? least / 4 : TICK_MIN_MS;
}

static int make_part(struct net_server *server, unsigned i, bool crowd, struct cairn_err *err)
{
	struct net_part *part = &server->parts[i];
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "%.8s-io%u", server->name, i % 100);
	part->server = server;
	net_call_part_init(part, crowd);
	part->tick_ms = tick_interval(&server->limits);
	rc = net_loop_new(name, &part->loop, err);
	if (rc != 0)
		return rc;
	net_crowd_init(&part->crowd, part->loop, net_conn_work);
	if (crowd)
		net_loop_call(part->loop, net_loop_yield_to_others, NULL);
	return 0;
}

/* Makes `n` loops for ordinary connections and one for crowds. The loop for crowds is a
 * single thread of low priority, so crowds do not delay other connections. */
static int make_parts(struct net_server *server, unsigned n, struct cairn_err *err)
{
	n++;
	server->parts = cairn_calloc(n, sizeof(*server->parts));
	server->methods = net_methods_new();
	if (!server->parts || !server->methods)
		return cairn_err_nomem(err, "server");
	for (unsigned i = 0; i < n; i++) {
		int rc = make_part(server, i, i == n - 1, err);

		if (rc != 0)
			return rc;
		server->n_parts++;
	}
	return net_workers_new(server->name, server->limits.workers, server->limits.queued_calls,
			       &server->workers, err);
}

static int grpc_server_make_shares(struct net_server *server, struct cairn_err *err)
{
	const struct net_limits *l = &server->limits;
	const struct net_shares_limits limits = {
		.connections = l->connections,
		.connections_each = l->connections_each,
		.strangers = l->strangers,
		.strangers_each = l->strangers_each,
		.handshakes_burst = l->handshakes_burst,
		.handshakes_per_second = l->handshakes_per_second,
		.request_bytes = l->request_bytes,
		.request_bytes_each = l->request_bytes_each,
	};

	return net_shares_new(&limits, &server->shares, err);
}

static int add_health(struct net_server *server, struct cairn_err *err)
{
	server->health = net_health_new();
	if (!server->health)
		return cairn_err_nomem(err, "health service");
	return net_health_serve(server->health, server, err);
}

int net_server_new(const struct net_server_options *options, struct net_server **ret,
		   struct cairn_err *err)
{
	struct net_server *server = cairn_calloc(1, sizeof(*server));
	int rc;

	if (!server)
		return cairn_err_nomem(err, "server");
	snprintf(server->name, sizeof(server->name), "%.8s",
		 options->name ? options->name : "grpc");
	server->limits = net_limits_defaulted(&options->limits);
	server->authenticates = options->authenticates;
	server->account.max = server->limits.buffered_bytes;
	pthread_mutex_init(&server->lock, NULL);
	cairn_cond_init(&server->quiet);
	rc = grpc_server_make_shares(server, err);
	if (rc == 0)
		rc = make_parts(server, options->io_threads ? options->io_threads : 1, err);
	if (rc == 0)
		rc = add_health(server, err);
	if (rc != 0) {
		net_server_free(server);
		return rc;
	}
	*ret = server;
	return 0;
}

int net_server_add(struct net_server *server, const struct net_method *methods, size_t n,
		   struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++) {
		int rc = net_methods_add(server->methods, &methods[i], err);

		if (rc != 0)
			return rc;
	}
	return 0;
}

static void start_part(void *arg)
{
	struct net_part *part = arg;

	net_timer_init(&part->tick, part->loop, net_part_tick, part);
	net_timer_set(&part->tick, part->tick_ms);
	if (part == part->server->parts)
		net_listeners_start(part->server);
}

int net_server_start(struct net_server *server, struct cairn_err *err)
{
	if (server->started)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the server runs already");
	server->started = true;
	for (unsigned i = server->n_parts; i-- > 0;)
		net_loop_call(server->parts[i].loop, start_part, &server->parts[i]);
	return 0;
}

/* --- ending --- */

void net_server_went_quiet(struct net_server *server)
{
	if (!atomic_load(&server->draining))
		return;
	cairn_scoped_lock(&server->lock);
	pthread_cond_broadcast(&server->quiet);
}

static void drain_part(void *arg)
{
	struct net_part *part = arg;
	uint64_t now = cairn_monotonic_ns();

	if (part == part->server->parts)
		net_listeners_free(part->server);
	for (struct net_conn *conn = part->conns; conn; conn = conn->next) {
		if (conn->session)
			net_conn_drain(conn, now);
		else
			net_conn_fail(conn, CAIRN_UNAVAILABLE, "the server is stopping");
	}
	part->tick_ms = TICK_DRAIN_MS;
	net_timer_set(&part->tick, part->tick_ms);
}

struct cut {
	struct net_part *part;
	unsigned calls;
};

static void cut_part(void *arg)
{
	struct cut *cut = arg;
	struct net_conn *next;

	for (struct net_conn *conn = cut->part->conns; conn; conn = next) {
		next = conn->next;
		for (struct net_stream *s = conn->streams, *after; s; s = after) {
			after = s->next;
			cut->calls++;
			net_call_abort(s, CAIRN_UNAVAILABLE, "the server is stopping");
		}
		if (conn->session && !conn->gone_away) {
			conn->gone_away = true;
			nghttp2_submit_goaway(
				conn->session, NGHTTP2_FLAG_NONE,
				nghttp2_session_get_last_proc_stream_id(conn->session),
				NGHTTP2_NO_ERROR, NULL, 0);
		}
		net_conn_want_flush(conn);
		net_conn_fail(conn, CAIRN_UNAVAILABLE, "the server is stopping");
	}
	net_timer_done(&cut->part->tick);
}

static void wait_until(struct net_server *server, bool (*enough)(const struct net_server *server),
		       uint64_t wait_ms)
{
	cairn_scoped_lock(&server->lock);
	uint64_t end = cairn_after_ms(wait_ms);

	while (!enough(server))
		if (!cairn_cond_wait_until(&server->quiet, &server->lock, end))
			return;
}

static bool nothing_runs(const struct net_server *server)
{
	return atomic_load(&server->calls_open) == 0;
}

static bool nobody_is_there(const struct net_server *server)
{
	return nothing_runs(server) && atomic_load(&server->conns_open) == 0;
}

unsigned net_server_drain(struct net_server *server, uint64_t grace_ms)
{
	unsigned calls = 0;

	atomic_store(&server->draining, true);
	if (server->health)
		net_health_shut_down(server->health);
	for (unsigned i = 0; i < server->n_parts; i++)
		net_loop_call(server->parts[i].loop, drain_part, &server->parts[i]);
	if (grace_ms > 0)
		wait_until(server, nobody_is_there, grace_ms);
	for (unsigned i = 0; i < server->n_parts; i++) {
		struct cut cut = {.part = &server->parts[i]};

		net_loop_call(server->parts[i].loop, cut_part, &cut);
		calls += cut.calls;
	}
	wait_until(server, nothing_runs, UINT64_MAX);
	return calls;
}

static void grpc_server_nothing(void *arg)
{
	(void)arg;
}

void net_server_free(struct net_server *server)
{
	if (!server)
		return;
	if (server->n_parts > 0)
		net_server_drain(server, 0);
	/* The last call may have ended while the loop that handed it over is still
	 * about to wake a worker for it. */
	for (unsigned i = 0; i < server->n_parts; i++)
		net_loop_call(server->parts[i].loop, grpc_server_nothing, NULL);
	net_workers_free(server->workers);
	for (unsigned i = 0; i < server->n_parts; i++)
		net_loop_free(server->parts[i].loop);
	net_methods_free(server->methods);
	net_health_free(server->health);
	net_reflection_free(server->reflection);
	pthread_cond_destroy(&server->quiet);
	pthread_mutex_destroy(&server->lock);
	net_shares_free(server->shares);
	free(server->parts);
	free(server);
}

/* --- services of every server --- */

int net_server_set_serving(struct net_server *server, const char *service, bool serving,
			   struct cairn_err *err)
{
	return net_health_set(server->health, service, serving, err);
}

int net_server_add_reflection(struct net_server *server, const void *descriptor_set, size_t n,
			      struct cairn_err *err)
{
	int rc = 0;

	if (!server->reflection)
		rc = net_reflection_new(server, &server->reflection, err);
	return rc == 0 ? net_reflection_add(server->reflection, descriptor_set, n, err) : rc;
}

/* --- looking --- */

struct net_loop *net_server_loop(struct net_server *server, unsigned i)
{
	return server->parts[i % server->n_parts].loop;
}

unsigned net_server_loops(const struct net_server *server)
{
	return server->n_parts;
}

void net_server_stats(const struct net_server *server, struct net_server_stats *ret)
{
	struct net_shares_stats shares;

	net_shares_stats(server->shares, &shares);
	*ret = (struct net_server_stats){
		.connections_open = atomic_load(&server->conns_open),
		.connections_total = atomic_load(&server->conns_total),
		.connections_refused = shares.refused,
		.connections_displaced = shares.displaced,
		.request_bytes = shares.request_bytes,
		.requests_refused = shares.requests_refused,
		.calls_open = atomic_load(&server->calls_open),
		.calls_total = atomic_load(&server->calls_total),
		.calls_failed = atomic_load(&server->calls_failed),
		.bytes_buffered = atomic_load(&server->account.bytes),
		.peers_calmed = shares.calmed,
	};
}

void net_server_on_call_end(struct net_server *server,
			    void (*seen)(void *arg, const char *path, int code,
					 uint64_t duration_ns),
			    void *arg)
{
	server->call_end = seen;
	server->call_end_arg = arg;
}
