/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/plugin.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "net/grpc/grpc_server.h"
#include "net/signals.h"
#include "velero/arguments.h"
#include "velero/handshake.h"
#include "velero/services.h"

/* Velero kills a plugin that does not end within 2 s. */
#define DRAIN_MS  500U
#define PARENT_MS 1000U /* how often we check that Velero is alive */

#define SOCKET_MODE 0600
#define PATH_BYTES  128

struct plugin {
	struct velero_world world;
	struct velero_services services;
	struct net_server *server;
	char directory[PATH_BYTES]; /* of the socket; "" until it is created */
	char socket[PATH_BYTES + 16];
	pthread_t main_thread;
	atomic_bool ended;
};

static void plugin_done(struct plugin *plugin)
{
	net_server_free(plugin->server);
	velero_world_done(&plugin->world);
	if (plugin->directory[0]) {
		(void)unlink(plugin->socket);
		(void)rmdir(plugin->directory);
	}
}

/* Wakes up the main thread, which waits for a signal. */
static void end_plugin(void *arg)
{
	struct plugin *plugin = arg;

	atomic_store(&plugin->ended, true);
	(void)pthread_kill(plugin->main_thread, SIGUSR1);
}

/* Creates a private directory, so that no other user can create the socket's name. */
static int make_directory(struct plugin *plugin, struct cairn_err *err)
{
	const char *parent = getenv("TMPDIR");
	char path[PATH_BYTES];
	int n = snprintf(path, sizeof(path), "%s/cairn-velero-XXXXXX",
			 parent && *parent ? parent : "/tmp");

	if (n < 0 || (size_t)n >= sizeof(path))
		return cairn_err_set(err, CAIRN_INVALID, "TMPDIR is too long for a socket: %s",
				     parent);
	if (!mkdtemp(path))
		return cairn_err_sys(err, errno, "make directory '%s'", path);
	memcpy(plugin->directory, path, sizeof(path));
	snprintf(plugin->socket, sizeof(plugin->socket), "%s/plugin", path);
	return 0;
}

static int plugin_serve(struct plugin *plugin, struct cairn_err *err)
{
	const struct net_server_options options = {
		.name = "velero",
		.limits = {.message_bytes = VELERO_REQUEST_MAX},
	};
	int rc = make_directory(plugin, err);

	if (!rc)
		rc = net_server_new(&options, &plugin->server, err);
	if (!rc)
		rc = velero_services_add(&plugin->services, plugin->server, err);
	if (!rc)
		rc = net_server_listen_unix(plugin->server, plugin->socket, SOCKET_MODE, err);
	return rc ? rc : net_server_start(plugin->server, err);
}

static int plugin_shake_hands(const struct plugin *plugin, struct cairn_err *err)
{
	char line[VELERO_HANDSHAKE_MAX];
	int rc = velero_handshake_line(plugin->socket, line, err);

	if (rc)
		return rc;
	if (cairn_write_full(STDOUT_FILENO, line, strlen(line)) < 0)
		return cairn_err_sys(err, errno, "write to standard output");
	return 0;
}

/* Waits for SIGTERM or the end of Velero. SIGINT does not count: a terminal sends it to the
 * whole group, and Velero ends its plugins itself. */
static void plugin_wait_for_end(struct plugin *plugin, const sigset_t *signals, pid_t parent)
{
	while (!atomic_load(&plugin->ended) && getppid() == parent)
		if (net_signals_wait(signals, PARENT_MS) == SIGTERM)
			break;
}

/* The namespace of the server: its flag, what its manifest says, or the usual one. */
static const char *plugin_namespace(const struct velero_arguments *arguments)
{
	const char *said = arguments->ns ? arguments->ns : getenv("VELERO_NAMESPACE");

	return said && *said ? said : VELERO_NAMESPACE_DEFAULT;
}

int velero_plugin_run(int argc, char *const *argv, struct cairn_err *err)
{
	struct velero_arguments arguments = velero_arguments_read(argc, argv);
	cairn_cleanup(plugin_done) struct plugin plugin = {.main_thread = pthread_self()};
	pid_t parent = getppid();
	sigset_t signals;
	int rc;

	velero_world_init(&plugin.world, arguments.kubeconfig, arguments.csi_enabled);
	plugin.world.ns = plugin_namespace(&arguments);
	rc = velero_handshake_check(getenv, err);
	if (rc)
		return rc;
	cairn_log_setup(arguments.log_level, CAIRN_LOG_HCLOG);
	net_signals_block(&signals);
	plugin.services = (struct velero_services){
		.world = &plugin.world, .program = argv[0], .ended = end_plugin, .arg = &plugin};
	rc = plugin_serve(&plugin, err);
	if (!rc)
		rc = plugin_shake_hands(&plugin, err);
	if (rc)
		return rc;
	plugin_wait_for_end(&plugin, &signals, parent);
	net_server_drain(plugin.server, DRAIN_MS);
	return 0;
}
