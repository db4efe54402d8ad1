/* SPDX-License-Identifier: Apache-2.0 */

#include "grpc_fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "cairntest.h"
#include "grpc_echo.h"
#include "tls_files.h"

#define FLOOD_BYTES (16U << 10)

static int echo(struct net_call *call, void *arg, struct cairn_err *err)
{
	const uint8_t *data;
	const char *value;
	size_t n, len;
	int rc = net_call_recv(call, &data, &n, err);

	(void)arg;
	if (rc < 0)
		return rc;
	value = net_call_metadata(call, "x-echo", &len);
	if (value && net_call_add_header(call, "x-echo", value, len, err) != 0)
		return err->code;
	value = net_call_metadata(call, "x-echo-bin", &len);
	if (value && net_call_add_trailer(call, "x-echo-bin", value, len, err) != 0)
		return err->code;
	return net_call_send(call, data, n, err);
}

static int number_of(struct net_call *call, uint64_t *ret, struct cairn_err *err)
{
	const uint8_t *data;
	char text[24];
	size_t n;
	int rc = net_call_recv(call, &data, &n, err);

	if (rc < 0)
		return rc;
	snprintf(text, sizeof(text), "%.*s", (int)n, (const char *)data);
	return cairn_parse_u64(text, ret, err);
}

static int count(struct net_call *call, void *arg, struct cairn_err *err)
{
	uint64_t n;
	int rc = number_of(call, &n, err);

	(void)arg;
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		uint8_t *at;

		rc = net_call_reserve(call, sizeof(i), &at, err);
		if (rc == 0) {
			memcpy(at, &i, sizeof(i));
			net_call_commit(call, sizeof(i), i + 1 < n);
		}
	}
	return rc;
}

static int sum(struct net_call *call, void *arg, struct cairn_err *err)
{
	uint64_t total = 0;
	const uint8_t *data;
	size_t n;
	int rc;

	(void)arg;
	while ((rc = net_call_recv(call, &data, &n, err)) == 1)
		total += n;
	if (rc < 0)
		return rc;
	return net_call_send(call, &total, sizeof(total), err);
}

static int refuse(struct net_call *call, void *arg, struct cairn_err *err)
{
	(void)arg;
	if (net_call_set_details(call, "\x08\x09", 2, err) != 0)
		return err->code;
	return cairn_err_set(err, CAIRN_PRECONDITION, "größer als 100%%\nzwei");
}

static int wait(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct grpc_fixture *f = arg;
	int rc;

	atomic_fetch_add(&f->handlers, 1);
	do {
		rc = net_call_sleep(call, 50, err);
	} while (rc == 0);
	atomic_store(&f->last_result, rc);
	atomic_fetch_sub(&f->handlers, 1);
	return rc;
}

static int flood(struct net_call *call, void *arg, struct cairn_err *err)
{
	static const uint8_t zeros[FLOOD_BYTES];
	struct grpc_fixture *f = arg;
	int rc;

	atomic_fetch_add(&f->handlers, 1);
	do {
		rc = net_call_send(call, zeros, sizeof(zeros), err);
	} while (rc == 0);
	atomic_store(&f->last_result, rc);
	atomic_fetch_sub(&f->handlers, 1);
	return rc;
}

static int nap(struct net_call *call, void *arg, struct cairn_err *err)
{
	uint64_t ms;
	int rc = number_of(call, &ms, err);

	(void)arg;
	if (rc == 0)
		rc = net_call_sleep(call, ms, err);
	return rc == 0 ? net_call_send(call, "slept", 5, err) : rc;
}

static void add_methods(struct grpc_fixture *f, struct cairn_err *err)
{
	const struct net_method methods[] = {
		{"/t.T/Echo", NET_UNARY, echo, f},
		{"/t.T/Quick", NET_UNARY, echo, f, .quick = true},
		{"/t.T/Count", NET_SERVER_STREAM, count, f},
		{"/t.T/Sum", NET_CLIENT_STREAM, sum, f},
		{"/t.T/Chat", NET_BIDI, grpc_echo, f},
		{"/t.T/Fail", NET_UNARY, refuse, f},
		{"/t.T/Wait", NET_SERVER_STREAM, wait, f},
		{"/t.T/Flood", NET_SERVER_STREAM, flood, f},
		{"/t.T/Nap", NET_UNARY, nap, f},
		{"/t.T/Deaf", NET_CLIENT_STREAM, wait, f},
	};

	assert_ok(net_server_add(f->server, methods, ARRAY_LEN(methods), err), err);
}

static void make_tls(struct grpc_fixture *f, struct cairn_err *err)
{
	const long day = 24L * 3600;
	struct tls_pair ca = tls_pair_make(
		&(struct tls_pair_spec){.name = "ca", .not_before = -day, .not_after = day});
	struct tls_pair leaf = tls_pair_make(&(struct tls_pair_spec){.name = "server",
								     .alt = "IP:127.0.0.1",
								     .issuer = &ca,
								     .not_before = -day,
								     .not_after = day});
	char cert[96], key[96], authority[96];

	tls_cert_write(f->dir, "ca.pem", &ca);
	tls_cert_write(f->dir, "cert.pem", &leaf);
	tls_key_write(f->dir, "key.pem", &leaf);
	tls_pair_done(&ca);
	tls_pair_done(&leaf);
	snprintf(cert, sizeof(cert), "%s/cert.pem", f->dir);
	snprintf(key, sizeof(key), "%s/key.pem", f->dir);
	snprintf(authority, sizeof(authority), "%s/ca.pem", f->dir);
	assert_ok(net_tls_server_new(
			  &(struct net_tls_options){.cert_file = cert, .key_file = key, .h2 = true},
			  &f->server_tls, err),
		  err);
	assert_ok(net_tls_client_new(&(struct net_tls_options){.ca_file = authority, .h2 = true},
				     &f->client_tls, err),
		  err);
}

static void listen_on(struct grpc_fixture *f, bool tls, struct cairn_err *err)
{
	snprintf(f->path, sizeof(f->path), "%s/s", f->dir);
	if (tls) {
		make_tls(f, err);
		assert_ok(net_server_listen_tcp(f->server, "127.0.0.1:0", f->server_tls, &f->port,
						err),
			  err);
		snprintf(f->target, sizeof(f->target), "127.0.0.1:%u", f->port);
	} else {
		assert_ok(net_server_listen_unix(f->server, f->path, 0600, err), err);
		snprintf(f->target, sizeof(f->target), "unix:%s", f->path);
	}
}

void grpc_fixture_start(struct grpc_fixture *f, const struct grpc_setup *setup)
{
	struct net_server_options options = {
		.name = "test", .limits = setup->limits, .io_threads = setup->io_threads};
	struct net_channel_options channel = setup->channel;
	struct cairn_err err = {0};

	*f = (struct grpc_fixture){0};
	scratch_template(f->dir, "grpc");
	assert_non_null(mkdtemp(f->dir));
	assert_ok(net_server_new(&options, &f->server, &err), &err);
	add_methods(f, &err);
	assert_ok(net_server_add(f->server, setup->more, setup->n_more, &err), &err);
	if (setup->call_end)
		net_server_on_call_end(f->server, setup->call_end, setup->call_end_arg);
	listen_on(f, setup->tls, &err);
	assert_ok(net_server_start(f->server, &err), &err);
	channel.target = f->target;
	channel.tls = f->client_tls;
	assert_ok(net_channel_new(&channel, &f->channel, &err), &err);
}

void grpc_fixture_stop(struct grpc_fixture *f)
{
	static const char *const names[] = {"ca.pem", "cert.pem", "key.pem", "s"};
	char path[160];

	net_channel_free(f->channel);
	net_server_free(f->server);
	net_tls_free(f->client_tls);
	net_tls_free(f->server_tls);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", f->dir, names[i]);
		unlink(path);
	}
	rmdir(f->dir);
}

int grpc_group_start(void **state, const struct grpc_setup *setup)
{
	static struct grpc_fixture f;

	grpc_fixture_start(&f, setup);
	*state = &f;
	return 0;
}

int grpc_group_start_unix(void **state)
{
	return grpc_group_start(state, &(struct grpc_setup){0});
}

int grpc_group_start_tls(void **state)
{
	return grpc_group_start(state, &(struct grpc_setup){.tls = true, .io_threads = 2});
}

int grpc_group_stop(void **state)
{
	grpc_fixture_stop(*state);
	return 0;
}

struct net_rpc_options grpc_to(const char *path)
{
	return (struct net_rpc_options){.path = path, .timeout_ms = 60000};
}
