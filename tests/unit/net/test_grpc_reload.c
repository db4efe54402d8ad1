/* SPDX-License-Identifier: Apache-2.0 */

/* A certificate that is replaced while a stream runs over it. */

#include "cairntest.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "grpc_echo.h"
#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_watch.h"
#include "tls_files.h"

#define DAY (24L * 3600)

struct world {
	char dir[64], cert[96], key[96], ca1[96], ca2[96];
	struct tls_pair authority1, authority2, pair1, pair2;
	struct net_tls *tls;
	struct net_tls_watch *watch;
	struct net_server *server;
	char target[32];
	atomic_uint reloads;
};

static void reloaded(void *arg, const struct cairn_err *failure)
{
	struct world *w = arg;

	if (!failure)
		w->reloads++;
}

static void make_files(struct world *w)
{
	static const struct tls_pair_spec authority = {
		.name = "ca", .not_before = -DAY, .not_after = DAY};

	scratch_template(w->dir, "reload");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->cert, sizeof(w->cert), "%s/tls.crt", w->dir);
	snprintf(w->key, sizeof(w->key), "%s/tls.key", w->dir);
	snprintf(w->ca1, sizeof(w->ca1), "%s/ca1.crt", w->dir);
	snprintf(w->ca2, sizeof(w->ca2), "%s/ca2.crt", w->dir);
	w->authority1 = tls_pair_make(&authority);
	w->authority2 = tls_pair_make(&authority);
	w->pair1 = tls_pair_make(
		&(struct tls_pair_spec){"one", "IP:127.0.0.1", &w->authority1, -DAY, DAY});
	w->pair2 = tls_pair_make(
		&(struct tls_pair_spec){"two", "IP:127.0.0.1", &w->authority2, -DAY, DAY});
	tls_cert_write(w->dir, "tls.crt", &w->pair1);
	tls_key_write(w->dir, "tls.key", &w->pair1);
	tls_cert_write(w->dir, "ca1.crt", &w->authority1);
	tls_cert_write(w->dir, "ca2.crt", &w->authority2);
}

static int setup(void **state)
{
	static const struct net_method method = {
		.path = "/t.T/Echo", .kind = NET_BIDI, .handler = grpc_echo};
	static struct world w;
	struct cairn_err err = {0};
	uint16_t port;

	make_files(&w);
	assert_ok(net_tls_server_new(&(struct net_tls_options){.cert_file = w.cert,
							       .key_file = w.key,
							       .h2 = true},
				     &w.tls, &err),
		  &err);
	assert_ok(net_tls_watch_new(w.tls,
				    &(struct net_tls_watch_options){
					    .settle_ms = 5, .changed = reloaded, .arg = &w},
				    &w.watch, &err),
		  &err);
	assert_ok(net_server_new(&(struct net_server_options){0}, &w.server, &err), &err);
	assert_ok(net_server_add(w.server, &method, 1, &err), &err);
	assert_ok(net_server_listen_tcp(w.server, "127.0.0.1:0", w.tls, &port, &err), &err);
	assert_ok(net_server_start(w.server, &err), &err);
	snprintf(w.target, sizeof(w.target), "127.0.0.1:%u", (unsigned)port);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	const char *const files[] = {w->cert, w->key, w->ca1, w->ca2};

	net_server_free(w->server);
	net_tls_watch_free(w->watch);
	net_tls_free(w->tls);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		(void)unlink(files[i]);
	assert_int_equal(rmdir(w->dir), 0);
	tls_pair_done(&w->authority1);
	tls_pair_done(&w->authority2);
	tls_pair_done(&w->pair1);
	tls_pair_done(&w->pair2);
	return 0;
}

/* A client that trusts one of the two authorities. */
struct client {
	struct net_tls *tls;
	struct net_channel *channel;
};

static struct client client_of(const struct world *w, const char *ca)
{
	struct client client;
	struct cairn_err err = {0};

	assert_ok(net_tls_client_new(&(struct net_tls_options){.ca_file = ca, .h2 = true},
				     &client.tls, &err),
		  &err);
	assert_ok(net_channel_new(
			  &(struct net_channel_options){.target = w->target, .tls = client.tls},
			  &client.channel, &err),
		  &err);
	return client;
}

static void client_done(struct client *client)
{
	net_channel_free(client->channel);
	net_tls_free(client->tls);
}

static void exchange(struct net_rpc *rpc)
{
	struct cairn_err err = {0};
	const uint8_t *data;
	size_t n;

	assert_ok(net_rpc_send(rpc, "stone", 5, false, &err), &err);
	assert_int_equal(net_rpc_recv(rpc, &data, &n, &err), 1);
	assert_int_equal(n, 5);
	assert_memory_equal(data, "stone", 5);
}

static void a_stream_lives_on_while_the_certificate_is_replaced(void **state)
{
	struct world *w = *state;
	struct client before = client_of(w, w->ca1), old = client_of(w, w->ca1),
		      after = client_of(w, w->ca2);
	struct net_rpc_options options = {.path = "/t.T/Echo", .timeout_ms = 60000};
	struct cairn_err err = {0};
	struct net_rpc *rpc;

	assert_ok(net_rpc_start(before.channel, &options, &rpc, &err), &err);
	exchange(rpc);
	assert_int_not_equal(net_channel_connect(after.channel, 60000, &err), 0);

	tls_cert_write(w->dir, "tls.crt", &w->pair2);
	tls_key_write(w->dir, "tls.key", &w->pair2);
	for (int i = 0; i < 12000 && w->reloads == 0; i++)
		cairn_sleep_ms(5);
	assert_int_equal(w->reloads, 1);

	exchange(rpc); /* over the connection that knows the old pair */
	client_done(&after);
	after = client_of(w, w->ca2);
	assert_ok(net_channel_connect(after.channel, 60000, &err), &err);
	assert_int_not_equal(net_channel_connect(old.channel, 60000, &err), 0);
	exchange(rpc);
	net_rpc_free(rpc);
	client_done(&before);
	client_done(&old);
	client_done(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_lives_on_while_the_certificate_is_replaced),
	};

	return cmocka_run_group_tests_name("net/grpc_reload", tests, setup, teardown);
}
