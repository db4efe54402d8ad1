/* SPDX-License-Identifier: Apache-2.0 */

/* Many calls of all kinds over TLS, through a relay and to servers that die,
 * with random sizes, stalls, resets and kills, for a given time.
 *
 * Every call has a deadline far beyond what it needs: one that ends by it
 * counts as hung, and any hang fails the run. (On a machine that gives this
 * program too little, --step-time makes that deadline longer.) Contents are
 * checked. At the end nothing may be left over in the servers.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/flags.h"
#include "base/mem.h"
#include "grpc_fixture.h"
#include "net/grpc/relay.h"
#include "unit/support/cairntest.h"

#define BYTES_MAX   200000
#define THREADS_MAX 64
#define MORTAL_MS   700 /* how long a server that dies lives */

struct request {
	uint32_t count, bytes_max, seed, stall_ms;
};

struct world {
	struct grpc_fixture back; /* unix; behind the relay */
	struct grpc_fixture front;
	struct grpc_fixture mortal;
	pthread_rwlock_t mortal_lock; /* held for reading while its channel is in use */
	struct net_channel *to_back;
	uint64_t seconds, n_threads, seed;
	uint64_t step_ms; /* for anything that should be quick */
	_Atomic bool stop;
	_Atomic uint64_t ok, cancelled, expired, unavailable, killed, hung, wrong, streams, bytes;
	_Atomic uint64_t beat[THREADS_MAX];
};

static struct world w;

static uint32_t next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void fill(uint8_t *at, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(seed + i * 7);
}

static bool filled(const uint8_t *at, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		if (at[i] != (uint8_t)(seed + i * 7))
			return false;
	}
	return true;
}

/* --- handlers --- */

static int mix(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct request r;
	const uint8_t *data;
	uint32_t state;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc != 1 || n != sizeof(r))
		return cairn_err_set(err, CAIRN_INVALID, "no request");
	memcpy(&r, data, sizeof(r));
	state = r.seed;
	for (uint32_t i = 0; i < r.count; i++) {
		size_t len = next_random(&state) % r.bytes_max;
		uint8_t *at;

		rc = net_call_reserve(call, len + 50, &at, err);
		if (rc != 0)
			return rc;
		fill(at, len, state);
		net_call_commit(call, len, next_random(&state) % 2);
		if (r.stall_ms && state % 16 == 0)
			rc = net_call_sleep(call, state % r.stall_ms, err);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int pass_on(struct net_call *call, void *arg, struct cairn_err *err)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *up = NULL;
	struct net_rpc_options options = {.path = "/s.S/Mix", .identity_only = true};
	struct net_relay_options relay = {0};
	const uint8_t *data;
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc != 1)
		return cairn_err_set(err, CAIRN_INVALID, "no request");
	rc = net_rpc_start(w.to_back, &options, &up, err);
	if (rc == 0)
		rc = net_rpc_send(up, data, n, true, err);
	return rc == 0 ? net_relay_run(call, up, &relay, NULL, err) : rc;
}

/* --- calls --- */

static void count_end(int rc, bool may_die)
{
	if (rc == 0)
		w.ok++;
	else if (rc == CAIRN_DEADLINE)
		w.hung++;
	else if (may_die && (rc == CAIRN_UNAVAILABLE || rc == CAIRN_CANCELLED))
		w.unavailable++;
	else
		w.wrong++;
}

static struct net_rpc *begin(struct net_channel *channel, const char *path, uint64_t timeout_ms)
{
	struct net_rpc_options options = {.path = path, .timeout_ms = timeout_ms};
	struct net_rpc *rpc = NULL;

	w.streams++;
	if (net_rpc_start(channel, &options, &rpc, NULL) != 0)
		abort();
	return rpc;
}

/* Reads a stream and checks it; gives up after `leave_after` messages. */
static int read_mix(struct net_rpc *rpc, struct request r, uint32_t leave_after, uint32_t *random)
{
	uint32_t state = r.seed, i = 0;
	const uint8_t *data;
	size_t n;
	int rc;

	while (i < leave_after && (rc = net_rpc_recv(rpc, &data, &n, NULL)) == 1) {
		size_t want = next_random(&state) % r.bytes_max;

		if (n != want || !filled(data, n, state))
			return CAIRN_DATA_LOSS;
		w.bytes += n;
		next_random(&state);
		i++;
		if (next_random(random) % 64 == 0)
			cairn_sleep_ms(*random % 5);
	}
	if (i == leave_after)
		return 1;
	/* A stream that ends OK is complete. */
	return rc == 0 && i != r.count ? CAIRN_DATA_LOSS : rc;
}

static void read_stream(struct net_channel *channel, const char *path, uint32_t *random,
			bool may_die)
{
	struct request r = {.count = next_random(random) % 300,
			    .bytes_max = 1 + next_random(random) % (*random % 4 ? 2000 : 60000),
			    .seed = next_random(random) | 1,
			    .stall_ms = *random % 3 ? 0 : 5};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = begin(channel, path, w.step_ms);
	int rc = net_rpc_send(rpc, &r, sizeof(r), true, NULL);

	if (rc == 0)
		rc = read_mix(rpc, r, UINT32_MAX, random);
	count_end(rc, may_die);
}

static void leave_stream(struct net_channel *channel, const char *path, uint32_t *random)
{
	struct request r = {.count = 100000, .bytes_max = 3000, .seed = next_random(random) | 1};
	struct net_rpc *rpc = begin(channel, path, w.step_ms);

	if (net_rpc_send(rpc, &r, sizeof(r), true, NULL) == 0 &&
	    read_mix(rpc, r, next_random(random) % 200, random) == CAIRN_DATA_LOSS)
		w.wrong++;
	net_rpc_free(rpc);
	w.cancelled++;
}

static void expire_stream(struct net_channel *channel, const char *path, uint32_t *random)
{
	struct request r = {.count = 1000000, .bytes_max = 3000, .seed = next_random(random) | 1};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc =
		begin(channel, path, 1 + next_random(random) % 40);
	int rc = net_rpc_send(rpc, &r, sizeof(r), true, NULL);

	if (rc == 0)
		rc = read_mix(rpc, r, UINT32_MAX, random);
	if (rc == CAIRN_DEADLINE)
		w.expired++;
	else
		w.wrong++;
}

static void echo(struct net_channel *channel, uint32_t *random)
{
	struct net_rpc_options options = {.path = next_random(random) % 2 ? "/t.T/Echo"
									  : "/t.T/Quick",
					  .timeout_ms = w.step_ms};
	size_t n = next_random(random) % (*random % 8 ? 500 : BYTES_MAX), got = 0;
	cairn_auto_free uint8_t *data = cairn_alloc(n + 1), *back = NULL;
	int rc;

	fill(data, n, *random);
	w.streams++;
	rc = net_rpc_unary(channel, &options, data, n, &back, &got, NULL);
	if (rc == 0 && (got != n || memcmp(back, data, n) != 0))
		rc = CAIRN_DATA_LOSS;
	w.bytes += got;
	count_end(rc, false);
}

static void chat(struct net_channel *channel, uint32_t *random)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = begin(channel, "/t.T/Chat", w.step_ms);
	cairn_auto_free uint8_t *data = cairn_alloc(BYTES_MAX);
	uint32_t turns = next_random(random) % 30;
	const uint8_t *back;
	size_t got;
	int rc = 0;

	for (uint32_t i = 0; i < turns && rc == 0; i++) {
		size_t n = next_random(random) % (*random % 8 ? 500 : BYTES_MAX);

		fill(data, n, *random);
		rc = net_rpc_send(rpc, data, n, false, NULL);
		if (rc == 0)
			rc = net_rpc_recv(rpc, &back, &got, NULL) == 1 ? 0 : CAIRN_INTERNAL;
		if (rc == 0 && (got != n || memcmp(back, data, n) != 0))
			rc = CAIRN_DATA_LOSS;
	}
	if (rc == 0)
		rc = net_rpc_send_end(rpc, NULL);
	if (rc == 0)
		rc = net_rpc_recv(rpc, &back, &got, NULL);
	count_end(rc, false);
}

static void upload(struct net_channel *channel, uint32_t *random)
{
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = begin(channel, "/t.T/Sum", w.step_ms);
	cairn_auto_free uint8_t *data = cairn_calloc(1, BYTES_MAX);
	uint64_t total = 0, said = 0;
	const uint8_t *back;
	size_t got = 0;
	int rc = 0;

	for (uint32_t i = next_random(random) % 50; i > 0 && rc == 0; i--) {
		size_t n = next_random(random) % (*random % 4 ? 3000 : BYTES_MAX);

		rc = net_rpc_send(rpc, data, n, false, NULL);
		total += n;
	}
	if (rc == 0)
		rc = net_rpc_send_end(rpc, NULL);
	if (rc == 0 && net_rpc_recv(rpc, &back, &got, NULL) == 1 && got == sizeof(said)) {
		memcpy(&said, back, got);
		rc = said == total ? net_rpc_recv(rpc, &back, &got, NULL) : CAIRN_DATA_LOSS;
	} else if (rc == 0) {
		rc = CAIRN_INTERNAL;
	}
	count_end(rc, false);
}

/* A channel of its own, closed with calls under way. */
static void kill_channel(uint32_t *random)
{
	struct net_channel_options options = {.target = w.front.target, .tls = w.front.client_tls};
	struct request r = {.count = 100000, .bytes_max = 2000, .seed = 1};
	struct net_channel *channel = NULL;
	struct net_rpc *rpcs[5];
	const uint8_t *data;
	size_t n;

	if (net_channel_new(&options, &channel, NULL) != 0)
		abort();
	for (size_t i = 0; i < ARRAY_LEN(rpcs); i++) {
		rpcs[i] = begin(channel, i % 2 ? "/s.S/Mix" : "/s.S/Relay", w.step_ms);
		net_rpc_send(rpcs[i], &r, sizeof(r), true, NULL);
		if (next_random(random) % 2)
			net_rpc_recv(rpcs[i], &data, &n, NULL);
	}
	net_channel_free(channel);
	for (size_t i = 0; i < ARRAY_LEN(rpcs); i++) {
		int rc;

		while ((rc = net_rpc_recv(rpcs[i], &data, &n, NULL)) == 1)
			;
		if (rc != CAIRN_CANCELLED)
			w.wrong++;
		net_rpc_free(rpcs[i]);
	}
	w.killed++;
}

static void use_mortal(uint32_t *random)
{
	pthread_rwlock_rdlock(&w.mortal_lock);
	if (w.mortal.channel)
		read_stream(w.mortal.channel, "/s.S/Mix", random, true);
	pthread_rwlock_unlock(&w.mortal_lock);
}

static void *caller(void *arg)
{
	size_t id = (size_t)(uintptr_t)arg;
	uint32_t random = (uint32_t)(w.seed * 7919 + id * 104729) | 1;

	while (!atomic_load(&w.stop)) {
		const char *path = next_random(&random) % 2 ? "/s.S/Mix" : "/s.S/Relay";

		switch (next_random(&random) % 16) {
		case 0:
			leave_stream(w.front.channel, path, &random);
			break;
		case 1:
			expire_stream(w.front.channel, path, &random);
			break;
		case 2:
			chat(w.front.channel, &random);
			break;
		case 3:
			upload(w.front.channel, &random);
			break;
		case 4:
			kill_channel(&random);
			break;
		case 5:
		case 6:
			use_mortal(&random);
			break;
		case 7:
		case 8:
		case 9:
		case 10:
			read_stream(w.front.channel, path, &random, false);
			break;
		default:
			echo(w.front.channel, &random);
			break;
		}
		w.beat[id]++;
	}
	return NULL;
}

/* --- servers --- */

static const struct net_method methods[] = {
	{"/s.S/Mix", NET_SERVER_STREAM, mix, NULL},
	{"/s.S/Relay", NET_SERVER_STREAM, pass_on, NULL},
};

static void start_mortal(void)
{
	grpc_fixture_start(&w.mortal, &(struct grpc_setup){.tls = true,
							   .more = methods,
							   .n_more = 1,
							   .channel.backoff_first_ms = 10,
							   .channel.keepalive_wait_ms = w.step_ms,
							   .limits.keepalive_wait_ms = w.step_ms});
}

static void *reaper(void *arg)
{
	(void)arg;
	while (!atomic_load(&w.stop)) {
		cairn_sleep_ms(MORTAL_MS);
		/* The server dies under its calls; the channel lives until they have seen it. */
		net_server_free(w.mortal.server);
		w.mortal.server = NULL;
		pthread_rwlock_wrlock(&w.mortal_lock);
		grpc_fixture_stop(&w.mortal);
		start_mortal();
		pthread_rwlock_unlock(&w.mortal_lock);
		w.killed++;
	}
	return NULL;
}

static void start_all(void)
{
	struct net_channel_options options = {.backoff_first_ms = 10,
					      .keepalive_wait_ms = w.step_ms};
	struct cairn_err err = {0};

	pthread_rwlock_init(&w.mortal_lock, NULL);
	grpc_fixture_start(&w.back, &(struct grpc_setup){.more = methods,
							 .n_more = 1,
							 .limits.keepalive_wait_ms = w.step_ms});
	grpc_fixture_start(&w.front, &(struct grpc_setup){.tls = true,
							  .io_threads = 2,
							  .limits.reset_burst = 1U << 30,
							  .limits.keepalive_wait_ms = w.step_ms,
							  .channel.keepalive_wait_ms = w.step_ms,
							  .more = methods,
							  .n_more = 2});
	start_mortal();
	options.target = w.back.target;
	options.loop = net_server_loop(w.front.server, 0);
	assert_ok(net_channel_new(&options, &w.to_back, &err), &err);
}

/* True when all callers got somewhere since the last look. */
static bool all_alive(uint64_t last[THREADS_MAX])
{
	bool alive = true;

	for (uint64_t i = 0; i < w.n_threads; i++) {
		uint64_t beat = atomic_load(&w.beat[i]);

		alive &= beat != last[i];
		last[i] = beat;
	}
	return alive;
}

static bool watch(uint64_t seconds)
{
	uint64_t last[THREADS_MAX], end = cairn_monotonic_ns() + seconds * CAIRN_NS_PER_SEC;
	uint64_t checked = cairn_monotonic_ns();

	memset(last, 0xff, sizeof(last));
	/* On a busy machine no stream may have come to its end by then. */
	while (cairn_monotonic_ns() < end || w.ok == 0) {
		cairn_sleep_ms(100);
		if (cairn_monotonic_ns() - checked < 2 * w.step_ms * CAIRN_NS_PER_MS)
			continue;
		checked = cairn_monotonic_ns();
		if (!all_alive(last)) {
			fprintf(stderr, "a caller made no step in %llu s\n",
				(unsigned long long)w.step_ms / 500);
			return false;
		}
	}
	return true;
}

/* What is left over in a server after its callers are gone. */
static bool is_clean(struct grpc_fixture *f, const char *name)
{
	struct net_server_stats stats = {0};

	for (uint64_t i = 0; i < w.step_ms / 10; i++) {
		net_server_stats(f->server, &stats);
		if (stats.calls_open == 0 && stats.bytes_buffered == 0)
			return true;
		cairn_sleep_ms(10);
	}
	fprintf(stderr, "%s: %llu calls and %llu bytes are left over\n", name,
		(unsigned long long)stats.calls_open, (unsigned long long)stats.bytes_buffered);
	return false;
}

static bool finish(void)
{
	bool clean = is_clean(&w.front, "front") && is_clean(&w.back, "back");

	net_server_drain(w.front.server, 0);
	net_channel_free(w.to_back);
	grpc_fixture_stop(&w.front);
	grpc_fixture_stop(&w.back);
	grpc_fixture_stop(&w.mortal);
	pthread_rwlock_destroy(&w.mortal_lock);
	return clean;
}

static void report(void)
{
	printf("streams %llu, MiB %llu, ok %llu, left %llu, expired %llu, cut off %llu, kills %llu, "
	       "wrong %llu, hung %llu\n",
	       (unsigned long long)w.streams, (unsigned long long)w.bytes >> 20,
	       (unsigned long long)w.ok, (unsigned long long)w.cancelled,
	       (unsigned long long)w.expired, (unsigned long long)w.unavailable,
	       (unsigned long long)w.killed, (unsigned long long)w.wrong,
	       (unsigned long long)w.hung);
}

int main(int argc, char **argv)
{
	const struct cairn_flag table[] = {
		{.name = "seconds", .kind = CAIRN_FLAG_U64, .target = &w.seconds},
		{.name = "threads", .kind = CAIRN_FLAG_U64, .target = &w.n_threads},
		{.name = "seed", .kind = CAIRN_FLAG_U64, .target = &w.seed},
		{.name = "step-time", .kind = CAIRN_FLAG_DURATION, .target = &w.step_ms},
		CAIRN_FLAG_END,
	};
	const struct cairn_flag *const tables[] = {table, NULL};
	pthread_t threads[THREADS_MAX], reap;
	struct cairn_err err = {0};
	int left;

	w.seconds = 10;
	w.step_ms = 120000;
	w.n_threads = 16;
	w.seed = 1;
	if (cairn_flags_parse(tables, argc - 1, argv + 1, 0, &left, &err) != 0 ||
	    w.n_threads > THREADS_MAX) {
		fprintf(stderr,
			"soak_grpc [--seconds N] [--threads N] [--seed N] [--step-time TIME]: %s\n",
			err.msg);
		return 2;
	}
	start_all();
	for (uint64_t i = 0; i < w.n_threads; i++)
		pthread_create(&threads[i], NULL, caller, (void *)(uintptr_t)i);
	pthread_create(&reap, NULL, reaper, NULL);
	if (!watch(w.seconds)) {
		report();
		fflush(stdout);
		_exit(1); /* with all these threads still at work */
	}
	atomic_store(&w.stop, true);
	for (uint64_t i = 0; i < w.n_threads; i++)
		pthread_join(threads[i], NULL);
	pthread_join(reap, NULL);
	report();
	return finish() && w.hung == 0 && w.wrong == 0 && w.ok > 0 ? 0 : 1;
}
