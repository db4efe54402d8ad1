/* SPDX-License-Identifier: Apache-2.0 */

/* A server of the cairn.test service for tests and benchmarks.
 *
 *	cairn-test-server [--cert FILE --key FILE [--ca FILE]] LISTEN...
 *
 * LISTEN is unix:PATH, or HOST:PORT with TLS, or plain:HOST:PORT without. Each
 * gives a line "ready ADDRESS" on standard output. SIGTERM drains and ends it.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "listen_on.h"
#include "net/grpc/grpc_server.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "net/tls/tls_watch.h"
#include "test_service.h"

#define GRACE_MS      5000
#define MESSAGE_BYTES (16U << 20)

struct arguments {
	struct net_tls_options tls;
	char **listen;
	int n_listen;
};

static int fail(const struct cairn_err *err)
{
	fprintf(stderr, "cairn-test-server: %s\n", err->msg);
	return 1;
}

/* False when something is wrong with them. */
static bool parse(int argc, char **argv, struct arguments *ret)
{
	int i = 1;

	ret->tls.h2 = true;
	for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
		if (strcmp(argv[i], "--cert") == 0)
			ret->tls.cert_file = argv[i + 1];
		else if (strcmp(argv[i], "--key") == 0)
			ret->tls.key_file = argv[i + 1];
		else if (strcmp(argv[i], "--ca") == 0)
			ret->tls.ca_file = argv[i + 1];
		else
			return false;
	}
	ret->listen = argv + i;
	ret->n_listen = argc - i;
	return ret->n_listen > 0;
}

static int run(struct net_server *server, struct net_tls *tls, const struct arguments *arguments,
	       const sigset_t *signals, struct cairn_err *err)
{
	cairn_cleanup(net_tls_watch_freep) struct net_tls_watch *watch = NULL;
	int rc = test_service_add(server, err);

	for (int i = 0; rc == 0 && i < arguments->n_listen; i++)
		rc = listen_on(server, arguments->listen[i], tls, err);
	if (rc == 0 && tls)
		rc = net_tls_watch_new(tls, &(struct net_tls_watch_options){.settle_ms = 20},
				       &watch, err);
	if (rc == 0)
		rc = net_server_start(server, err);
	fflush(stdout);
	if (rc < 0)
		return rc;
	(void)net_signals_wait(signals, UINT64_MAX);
	(void)net_server_drain(server, GRACE_MS);
	return 0;
}

int main(int argc, char **argv)
{
	cairn_cleanup(net_server_freep) struct net_server *server = NULL;
	cairn_cleanup(net_tls_freep) struct net_tls *tls = NULL;
	struct arguments arguments = {0};
	struct cairn_err err = {0};
	sigset_t signals;

	net_signals_block(&signals);
	if (!parse(argc, argv, &arguments)) {
		fprintf(stderr, "usage: cairn-test-server [--cert FILE --key FILE [--ca FILE]] "
				"LISTEN...\n");
		return 2;
	}
	if (arguments.tls.cert_file && net_tls_server_new(&arguments.tls, &tls, &err) < 0)
		return fail(&err);
	if (net_server_new(&(struct net_server_options){.limits.message_bytes = MESSAGE_BYTES},
			   &server, &err) < 0)
		return fail(&err);
	return run(server, tls, &arguments, &signals, &err) < 0 ? fail(&err) : 0;
}
