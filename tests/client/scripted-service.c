/* SPDX-License-Identifier: Apache-2.0 */

/* The scripted peer as a program.
 *
 *	scripted-service [option...] unix:PATH | HOST:PORT
 *
 *	--cert FILE --key FILE  TLS, needed for HOST:PORT
 *	--blocks N --stride N --length N --per-message N
 *	--fixed                 FIXED_LENGTH
 *	--announce              an empty first message
 *	--step MESSAGES:CODE[:TOKEN]
 *	                        how the next stream goes, once for each stream;
 *	                        "all" messages, CODE a gRPC number
 *
 * It writes "ready ADDRESS", and for each stream that is asked for a line
 * "stream OFFSET allocated|delta SNAPSHOT BASE TOKEN". SIGTERM ends it.
 */

#include "listen_on.h"
#include "scripted_service.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "net/grpc/grpc_server.h"
#include "net/signals.h"
#include "net/tls/tls_settings.h"
#include "proto/block_metadata.h"

#define STEPS_MAX 32

static struct scripted_service service;
static struct scripted_step steps[STEPS_MAX];
static struct net_tls_options tls_options = {.h2 = true};

static bool number(const char *text, uint64_t *ret)
{
	return cairn_parse_u64(text, ret, NULL) == 0;
}

/* Cuts the argument at its colons. */
static bool add_step(char *text)
{
	struct scripted_step *step = &steps[service.n_steps];
	char *code = strchr(text, ':');
	char *token = code ? strchr(code + 1, ':') : NULL;
	uint64_t value;

	if (!code || service.n_steps == STEPS_MAX)
		return false;
	*code++ = '\0';
	if (token)
		*token++ = '\0';
	step->messages = SCRIPTED_ALL;
	if (strcmp(text, "all") != 0 && !number(text, &step->messages))
		return false;
	if (!number(code, &value) || value > 16)
		return false;
	step->code = -(int)value;
	step->token = token;
	service.steps = steps;
	service.n_steps++;
	return true;
}

static bool with_value(const char *name, char *value)
{
	uint64_t n = 0;

	if (strcmp(name, "--cert") == 0)
		tls_options.cert_file = value;
	else if (strcmp(name, "--key") == 0)
		tls_options.key_file = value;
	else if (strcmp(name, "--step") == 0)
		return add_step(value);
	else if (!number(value, &n))
		return false;
	else if (strcmp(name, "--blocks") == 0)
		service.blocks = n;
	else if (strcmp(name, "--stride") == 0)
		service.stride = n;
	else if (strcmp(name, "--length") == 0)
		service.length = n;
	else if (strcmp(name, "--per-message") == 0)
		service.per_message = (uint32_t)n;
	else
		return false;
	return true;
}

static const char *parse(int argc, char **argv)
{
	int i = 1;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--fixed") == 0)
			service.type = PROTO_BLOCK_FIXED;
		else if (strcmp(argv[i], "--announce") == 0)
			service.announce = true;
		else if (i + 1 >= argc || !with_value(argv[i], argv[i + 1]))
			return NULL;
		else
			i++;
	}
	return i + 1 == argc ? argv[i] : NULL;
}

static int serve(const char *at, const sigset_t *signals, struct cairn_err *err)
{
	cairn_cleanup(net_tls_freep) struct net_tls *tls = NULL;
	cairn_cleanup(net_server_freep) struct net_server *server = NULL;
	int rc = 0;

	if (tls_options.cert_file)
		rc = net_tls_server_new(&tls_options, &tls, err);
	if (!rc)
		rc = net_server_new(&(struct net_server_options){0}, &server, err);
	if (!rc)
		rc = scripted_service_add(&service, server, err);
	if (!rc)
		rc = listen_on(server, at, tls, err);
	if (!rc)
		rc = net_server_start(server, err);
	if (rc)
		return rc;
	fflush(stdout);
	(void)net_signals_wait(signals, UINT64_MAX);
	(void)net_server_drain(server, 0);
	return 0;
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};
	sigset_t signals;
	const char *at;

	net_signals_block(&signals);
	scripted_service_init(&service);
	service.log = stdout;
	at = parse(argc, argv);
	if (!at) {
		fprintf(stderr, "usage: scripted-service [option...] unix:PATH | HOST:PORT\n");
		return 2;
	}
	if (serve(at, &signals, &err) == 0)
		return 0;
	fprintf(stderr, "scripted-service: %s\n", err.msg);
	return 1;
}
