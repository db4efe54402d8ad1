/* SPDX-License-Identifier: Apache-2.0 */

/* Listeners, what a handler can learn about its caller, the health service, and
 * what happens when memory is short. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "grpc_fixture.h"
#include "net/loop.h"

/* --- listeners --- */

static void a_socket_has_the_mode_asked_for_and_goes_with_the_server(void **state)
{
	struct grpc_fixture f;
	struct stat st;

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){0});
	assert_int_equal(lstat(f.path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	net_server_free(f.server);
	f.server = NULL;
	assert_int_equal(lstat(f.path, &st), -1);
	grpc_fixture_stop(&f);
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
	struct net_server_options options = {0};
	cairn_cleanup(net_server_freep) struct net_server *second = NULL;
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct grpc_fixture f;
	struct cairn_err err = {0};
	char stale[96];
	FILE *file;
	int fd;

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){0});
	assert_ok(net_server_new(&options, &second, &err), &err);
	assert_code(net_server_listen_unix(second, f.path, 0600, &err), CAIRN_EXISTS);

	snprintf(stale, sizeof(stale), "%s/stale", f.dir);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", stale);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd); /* as after a kill: the file stays */
	assert_ok(net_server_listen_unix(second, stale, 0660, &err), &err);

	snprintf(stale, sizeof(stale), "%s/file", f.dir);
	file = fopen(stale, "w");
	assert_non_null(file);
	fclose(file);
	assert_code(net_server_listen_unix(second, stale, 0600, &err), CAIRN_EXISTS);
	unlink(stale);
	net_server_free(cairn_take(second));
	grpc_fixture_stop(&f);
}

static void addresses_are_checked(void **state)
{
	static const struct {
		const char *address;
		int code;
	} cases[] = {
		{"127.0.0.1:0", 0},
		{"[::1]:0", 0},
		{"0.0.0.0:0", CAIRN_INVALID},
		{":0", CAIRN_INVALID},
		{"10.1.2.3:0", CAIRN_INVALID},
		{"localhost:0", CAIRN_INVALID},
		{"127.0.0.1", CAIRN_INVALID},
		{"127.0.0.1:70000", CAIRN_INVALID},
		{"", CAIRN_INVALID},
		{"::1:0", CAIRN_INVALID},
	};
	struct net_server_options options = {0};
	cairn_cleanup(net_server_freep) struct net_server *server = NULL;
	struct cairn_err err = {0};
	char longer[200];

	(void)state;
	assert_ok(net_server_new(&options, &server, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint16_t port = 0;
		int rc = net_server_listen_tcp(server, cases[i].address, NULL, &port, &err);

		/* A machine without IPv6 may refuse the second. */
		if (rc != cases[i].code && i != 1)
			fail_msg("%s: %d %s", cases[i].address, rc, err.msg);
		if (rc == 0)
			assert_true(port > 0);
	}
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_code(net_server_listen_unix(server, longer, 0600, &err), CAIRN_INVALID);
}

static int nothing(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	return net_call_send(call, "", 0, err);
}

static void methods_have_one_handler_and_a_legal_path(void **state)
{
	static const struct {
		struct net_method method;
		int code;
	} cases[] = {
		{{"/a.B/C", NET_UNARY, nothing, NULL}, 0},
		{{"/a.B/C", NET_UNARY, nothing, NULL}, CAIRN_EXISTS},
		{{"/grpc.health.v1.Health/Check", NET_UNARY, nothing, NULL}, CAIRN_EXISTS},
		{{"a.B/C", NET_UNARY, nothing, NULL}, CAIRN_INVALID},
		{{"/a.B/D", NET_BIDI, nothing, NULL, .quick = true}, CAIRN_INVALID},
	};
	struct net_server_options options = {0};
	cairn_cleanup(net_server_freep) struct net_server *server = NULL;
	struct cairn_err err = {0};
	static char paths[100][16];

	(void)state;
	assert_ok(net_server_new(&options, &server, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_code(net_server_add(server, &cases[i].method, 1, &err), cases[i].code);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) { /* the table grows */
		struct net_method method = {paths[i], NET_UNARY, nothing, NULL};

		snprintf(paths[i], sizeof(paths[i]), "/m.M/%zu", i);
		assert_ok(net_server_add(server, &method, 1, &err), &err);
	}
}

/* --- what a handler learns --- */

struct learned {
	struct net_peer peer;
	uint64_t deadline_left_ns;
	size_t metadata;
	bool pseudo_seen;
	char authority[64], value[64];
	_Atomic int ends, last_code;
};

static int learn(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct learned *l = arg;
	const char *name, *value;

	l->peer = *net_call_peer(call);
	l->deadline_left_ns = net_call_deadline(call) - cairn_monotonic_ns();
	for (l->metadata = 0; net_call_metadata_at(call, l->metadata, &name, &value, NULL);
	     l->metadata++)
		l->pseudo_seen |= name[0] == ':' || strncmp(name, "grpc-", 5) == 0;
	snprintf(l->authority, sizeof(l->authority), "%s", net_call_authority(call));
	value = net_call_metadata(call, "x-a", NULL);
	snprintf(l->value, sizeof(l->value), "%s", value ? value : "");
	if (strcmp(net_call_path(call), "/l.L/Learn") != 0)
		return cairn_err_set(err, CAIRN_INTERNAL, "path");
	return net_call_send(call, "", 0, err);
}

static void ended(void *arg, const char *path, int code, uint64_t duration_ns)
{
	struct learned *l = arg;

	assert_string_equal(path, "/l.L/Learn");
	assert_true(duration_ns > 0);
	atomic_store(&l->last_code, code);
	atomic_fetch_add(&l->ends, 1);
}

static void a_handler_learns_who_calls_and_what_was_sent(void **state)
{
	static struct learned l;
	struct net_method method = {"/l.L/Learn", NET_UNARY, learn, &l};
	const struct net_metadata_entry entries[] = {{"x-a", "1", 1}, {"x-b", "2", 1}};
	struct net_rpc_options options = {.path = "/l.L/Learn", .timeout_ms = 60000};
	struct cairn_err err = {0};
	cairn_auto_free uint8_t *data = NULL;
	struct net_server_stats stats;
	struct grpc_fixture f;
	size_t n;

	(void)state;
	options.metadata = entries;
	options.n_metadata = ARRAY_LEN(entries);
	grpc_fixture_start(
		&f, &(struct grpc_setup){
			    .more = &method, .n_more = 1, .call_end = ended, .call_end_arg = &l});
	assert_ok(net_rpc_unary(f.channel, &options, "", 0, &data, &n, &err), &err);
	assert_true(l.peer.is_unix);
	assert_int_equal(l.peer.pid, getpid());
	assert_int_equal(l.peer.uid, getuid());
	assert_true(l.deadline_left_ns > 0 && l.deadline_left_ns <= 60 * CAIRN_NS_PER_SEC);
	assert_int_equal(l.metadata, 2);
	assert_false(l.pseudo_seen);
	assert_string_equal(l.value, "1");
	assert_string_equal(l.authority, "localhost");
	assert_int_equal(atomic_load(&l.ends), 1);
	assert_int_equal(atomic_load(&l.last_code), 0);
	net_server_stats(f.server, &stats);
	assert_int_equal(stats.calls_total, 1);
	assert_int_equal(stats.calls_failed, 0);
	grpc_fixture_stop(&f);
}

/* --- health --- */

static int check_health(struct grpc_fixture *f, const char *request, size_t n, uint8_t *ret_status)
{
	struct net_rpc_options options = grpc_to("/grpc.health.v1.Health/Check");
	cairn_auto_free uint8_t *data = NULL;
	struct cairn_err err = {0};
	size_t len = 0;
	int rc = net_rpc_unary(f->channel, &options, request, n, &data, &len, &err);

	*ret_status = rc == 0 && len == 2 ? data[1] : 0;
	return rc;
}

static void health_is_checked_and_watched(void **state)
{
	struct net_rpc_options options = grpc_to("/grpc.health.v1.Health/Watch");
	struct cairn_err err = {0};
	struct grpc_fixture f;
	struct net_rpc *watch = NULL;
	const uint8_t *data;
	uint8_t status;
	size_t n;

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){0});
	assert_int_equal(check_health(&f, "", 0, &status), 0);
	assert_int_equal(status, 1);
	assert_int_equal(check_health(&f, "\x0a\x01x", 3, &status), CAIRN_NOT_FOUND);

	assert_ok(net_rpc_start(f.channel, &options, &watch, &err), &err);
	assert_ok(net_rpc_send(watch, "\x0a\x01x", 3, true, &err), &err);
	assert_int_equal(net_rpc_recv(watch, &data, &n, &err), 1);
	assert_memory_equal(data, "\x08\x03", 2); /* not known yet */
	assert_ok(net_server_set_serving(f.server, "x", true, &err), &err);
	assert_int_equal(net_rpc_recv(watch, &data, &n, &err), 1);
	assert_memory_equal(data, "\x08\x01", 2);
	assert_int_equal(check_health(&f, "\x0a\x01x", 3, &status), 0);
	net_server_drain(f.server, 60000);
	assert_int_equal(net_rpc_recv(watch, &data, &n, &err), 1);
	assert_memory_equal(data, "\x08\x02", 2);
	assert_code(net_rpc_recv(watch, &data, &n, &err), CAIRN_UNAVAILABLE);
	net_rpc_free(watch);
	grpc_fixture_stop(&f);
}

/* --- the end --- */

#define LIVES      60
#define LAST_CALLS 16

/* Some are handed to a worker in the very turn of the loop that cuts them off. */
static void a_server_can_be_freed_while_calls_come_in(void **state)
{
	struct net_rpc_options options = grpc_to("/t.T/Echo");
	struct net_rpc *rpcs[LAST_CALLS];
	struct cairn_err err = {0};
	struct grpc_fixture f;
	const uint8_t *data;
	size_t n;

	(void)state;
	for (int life = 0; life < LIVES; life++) {
		grpc_fixture_start(&f, &(struct grpc_setup){0});
		for (int i = 0; i < LAST_CALLS; i++) {
			assert_ok(net_rpc_start(f.channel, &options, &rpcs[i], &err), &err);
			assert_ok(net_rpc_send(rpcs[i], "x", 1, true, &err), &err);
		}
		if (life % 2)
			assert_int_equal(net_rpc_recv(rpcs[0], &data, &n, &err), 1);
		net_server_free(f.server);
		f.server = NULL;
		for (int i = 0; i < LAST_CALLS; i++) {
			int rc = net_rpc_recv(rpcs[i], &data, &n, &err);

			assert_true(rc >= 0 || rc == CAIRN_UNAVAILABLE);
			net_rpc_free(rpcs[i]);
		}
		grpc_fixture_stop(&f);
	}
}

/* --- loops --- */

struct counted {
	struct net_task task;
	unsigned *order;
	unsigned number;
	_Atomic bool *done;
};

static void run_counted(struct net_task *task)
{
	struct counted *c = (struct counted *)task;

	if (*c->order != c->number)
		abort();
	if (++*c->order == 1000)
		atomic_store(c->done, true);
}

struct timed {
	struct net_loop *loop;
	struct net_timer timer;
	_Atomic unsigned fired;
};

static void fire(void *arg)
{
	struct timed *t = arg;

	if (atomic_fetch_add(&t->fired, 1) < 2)
		net_timer_set(&t->timer, 1);
}

static void set_timer(void *arg)
{
	struct timed *t = arg;

	assert_true(net_loop_is_current(t->loop));
	net_timer_init(&t->timer, t->loop, fire, t);
	net_timer_set(&t->timer, 100000);
	net_timer_set(&t->timer, 1); /* replaces it */
}

static void end_timer(void *arg)
{
	net_timer_done(&((struct timed *)arg)->timer);
}

static void tasks_run_in_order_and_timers_fire(void **state)
{
	static struct counted tasks[1000];
	cairn_cleanup(net_loop_freep) struct net_loop *loop = NULL;
	struct timed t = {0};
	struct cairn_err err = {0};
	_Atomic bool done = false;
	unsigned order = 0;

	(void)state;
	assert_ok(net_loop_new("test", &loop, &err), &err);
	assert_false(net_loop_is_current(loop));
	for (unsigned i = 0; i < 1000; i++) {
		tasks[i] = (struct counted){{.run = run_counted}, &order, i, &done};
		net_loop_post(loop, &tasks[i].task);
	}
	t.loop = loop;
	net_loop_call(loop, set_timer, &t);
	assert_true(atomic_load(&done)); /* what was posted before a call ran before it */
	for (int i = 0; i < 6000 && atomic_load(&t.fired) < 3; i++)
		cairn_sleep_ms(10);
	assert_int_equal(atomic_load(&t.fired), 3);
	net_loop_call(loop, end_timer, &t);
}

/* --- short memory --- */

static int any_call(struct grpc_fixture *f, const char *path, const char *request)
{
	struct net_rpc_options options = grpc_to(path);
	struct net_rpc *rpc = NULL;
	const uint8_t *data;
	size_t n;
	int rc = net_rpc_start(f->channel, &options, &rpc, NULL);

	if (rc != 0)
		return rc;
	rc = net_rpc_send(rpc, request, strlen(request), true, NULL);
	if (rc == 0)
		while ((rc = net_rpc_recv(rpc, &data, &n, NULL)) == 1)
			;
	net_rpc_free(rpc);
	return rc;
}

static void a_failed_allocation_ends_a_call_not_the_server(void **state)
{
	static const char *const calls[][2] = {
		{"/t.T/Echo", "hello"}, {"/t.T/Count", "100"}, {"/t.T/Fail", ""}};
	struct net_channel_options options;
	struct cairn_err err = {0};
	struct grpc_fixture f;

	(void)state;
	grpc_fixture_start(&f, &(struct grpc_setup){.channel.backoff_first_ms = 1,
						    .channel.backoff_max_ms = 1});
	for (size_t k = 0; k < ARRAY_LEN(calls); k++) {
		for (size_t n = 1; n < 40; n++) {
			options = (struct net_channel_options){.target = f.target};
			net_channel_free(f.channel);
			f.channel = NULL;
			assert_ok(net_channel_new(&options, &f.channel, &err), &err);
			cairn_mem_fail_at(n, 0);
			any_call(&f, calls[k][0], calls[k][1]); /* any end will do, but an end */
			cairn_mem_fail_at(0, 0);
		}
	}
	net_channel_free(f.channel);
	f.channel = NULL;
	options = (struct net_channel_options){.target = f.target};
	assert_ok(net_channel_new(&options, &f.channel, &err), &err);
	assert_int_equal(any_call(&f, "/t.T/Count", "100"), 0);
	grpc_fixture_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_has_the_mode_asked_for_and_goes_with_the_server),
		cmocka_unit_test(a_stale_socket_is_replaced_and_a_live_one_is_not),
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test(methods_have_one_handler_and_a_legal_path),
		cmocka_unit_test(a_handler_learns_who_calls_and_what_was_sent),
		cmocka_unit_test(health_is_checked_and_watched),
		cmocka_unit_test(a_server_can_be_freed_while_calls_come_in),
		cmocka_unit_test(tasks_run_in_order_and_timers_fire),
		cmocka_unit_test(a_failed_allocation_ends_a_call_not_the_server),
	};

	return cmocka_run_group_tests_name("net/grpc server", tests, NULL, NULL);
}
