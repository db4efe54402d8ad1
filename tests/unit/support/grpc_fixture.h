/* SPDX-License-Identifier: Apache-2.0 */

/* A server with a few methods and a channel to it, over unix or TLS. */
#ifndef CAIRN_TESTS_UNIT_GRPC_FIXTURE_H
#define CAIRN_TESTS_UNIT_GRPC_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>

#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/tls/tls_settings.h"

struct grpc_fixture {
	struct net_server *server;
	struct net_channel *channel;
	struct net_tls *server_tls, *client_tls;
	char dir[64];
	char path[96];
	char target[128];
	uint16_t port;
	_Atomic int handlers;    /* running now */
	_Atomic int last_result; /* what the last handler of a wait or flood saw */
};

struct grpc_setup {
	bool tls;
	struct net_limits limits;
	unsigned io_threads;
	struct net_channel_options channel;
	const struct net_method *more; /* methods beside the usual ones */
	size_t n_more;
	void (*call_end)(void *arg, const char *path, int code, uint64_t duration_ns);
	void *call_end_arg;
};

/* "/t.T/Echo" unary; "/t.T/Count" server stream of so many messages as the
 * request says in decimal; "/t.T/Sum" client stream; "/t.T/Chat" bidi echo;
 * "/t.T/Fail" status 9 with details; "/t.T/Wait" until cancelled; "/t.T/Flood"
 * 16 KiB messages until an error; "/t.T/Quick" unary echo on the I/O thread;
 * "/t.T/Nap" unary: sleeps so many milliseconds as the request says;
 * "/t.T/Deaf" client stream that waits like Wait and takes no message. */
void grpc_fixture_start(struct grpc_fixture *f, const struct grpc_setup *setup);
void grpc_fixture_stop(struct grpc_fixture *f);

/* One for all tests of a group, as its cmocka fixture: *state is the grpc_fixture. */
int grpc_group_start(void **state, const struct grpc_setup *setup);
int grpc_group_start_unix(void **state);
int grpc_group_start_tls(void **state);
int grpc_group_stop(void **state);

/* Options of a call to `path` with a deadline of 60 s. */
struct net_rpc_options grpc_to(const char *path);

#endif
