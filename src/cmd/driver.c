/* SPDX-License-Identifier: Apache-2.0 */

/* The role `cairn driver`: wiring of pools, CSI services and a gRPC server. */

#include "cmd/tree.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "csi/driver.h"
#include "net/server.h"
#include "net/signals.h"
#include "proto/descriptors.h"

#define SOCKET_MODE      0660
#define ENDPOINT_PREFIX  "unix://"
#define DRAIN_DEFAULT_MS 30000

static const char *endpoint = "unix:///run/csi/socket";
static const char *node_id;
static const char *driver_name = CSI_NAME_DEFAULT;
static const char *more_pools;
static bool topology;
static uint64_t fixed_length;
static uint64_t volumes_max;
static uint64_t drain_ms = DRAIN_DEFAULT_MS;

static const struct cairn_flag flags[] = {
	{.name = "endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &endpoint,
	 .value_name = "unix:///PATH",
	 .help = "socket to serve CSI on (default: unix:///run/csi/socket)"},
	{.name = "node-id",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &node_id,
	 .value_name = "ID",
	 .help = "this node's name in the cluster (required)"},
	{.name = "driver-name",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_name,
	 .value_name = "NAME",
	 .help = "name of the driver (default: " CSI_NAME_DEFAULT ")"},
	{.name = "pools",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &more_pools,
	 .value_name = "NAME=DIR,...",
	 .help = "more pools, chosen by the StorageClass parameter \"pool\""},
	{.name = "topology",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &topology,
	 .help = "say that a volume is reachable from this node only"},
	{.name = "fixed-length",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &fixed_length,
	 .value_name = "SIZE",
	 .help = "report changed blocks of this size (default: extents of any length)"},
	{.name = "max-volumes",
	 .kind = CAIRN_FLAG_U64,
	 .target = &volumes_max,
	 .value_name = "N",
	 .help = "volumes published to this node at most (default: 0, no limit)"},
	{.name = "drain-time",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &drain_ms,
	 .value_name = "TIME",
	 .help = "wait so long for calls to end when told to stop (default: 30s)"},
	CAIRN_FLAG_END,
};

/* The pool of --pool is called "default"; --pools adds others. Cuts `text`. */
static int read_pools(char *text, struct csi_pool_spec *specs, size_t *ret_n, struct cairn_err *err)
{
	char *item;
	size_t n = 0;

	specs[n++] = (struct csi_pool_spec){.name = "default", .dir = cmd_pool_dir()};
	while (text && (item = strsep(&text, ","))) {
		char *equals = strchr(item, '=');

		if (!equals || equals == item || !equals[1])
			return cmd_usage(err, "--pools: '%s' is not NAME=DIR", item);
		if (n == CSI_POOLS_MAX)
			return cmd_usage(err, "--pools: more than %u", CSI_POOLS_MAX);
		*equals = '\0';
		specs[n++] = (struct csi_pool_spec){.name = item, .dir = equals + 1};
	}
	*ret_n = n;
	return 0;
}

static int make_driver(struct csi_driver **ret, struct cairn_err *err)
{
	cairn_auto_free char *text = more_pools ? cairn_strdup(more_pools) : NULL;
	struct csi_pool_spec specs[CSI_POOLS_MAX];
	struct csi_options options = {
		.name = driver_name,
		.version = CAIRN_VERSION,
		.node_id = node_id,
		.pools = specs,
		.topology = topology,
		.fixed_length = fixed_length,
		.volumes_max = volumes_max,
	};
	int rc;

	if (more_pools && !text)
		return cairn_err_nomem(err, "driver");
	rc = read_pools(text, specs, &options.n_pools, err);
	return rc ? rc : csi_driver_new(&options, ret, err);
}

static int start(struct csi_driver *driver, struct net_server *server, struct cairn_err *err)
{
	struct proto_bytes set = proto_descriptors_cairn();
	const char *path = endpoint;
	int rc = csi_driver_serve(driver, server, err);

	if (strncmp(path, ENDPOINT_PREFIX, strlen(ENDPOINT_PREFIX)) == 0)
		path += strlen(ENDPOINT_PREFIX);
	if (!rc)
		rc = net_server_add_reflection(server, set.data, set.len, err);
	if (!rc)
		rc = net_server_listen_unix(server, path, SOCKET_MODE, err);
	return rc ? rc : net_server_start(server, err);
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(csi_driver_freep) struct csi_driver *driver = NULL;
	cairn_cleanup(net_server_freep) struct net_server *server = NULL;
	struct net_server_options options = {.name = "csi"};
	sigset_t signals;
	int rc;

	(void)argc;
	(void)argv;
	if (!node_id)
		return cmd_usage(err, "--node-id is required");
	if (strncmp(endpoint, ENDPOINT_PREFIX, strlen(ENDPOINT_PREFIX)) != 0 && endpoint[0] != '/')
		return cmd_usage(err, "--endpoint: '%s' is not unix:///PATH", endpoint);
	net_signals_block(&signals);
	rc = make_driver(&driver, err);
	if (!rc)
		rc = net_server_new(&options, &server, err);
	if (!rc)
		rc = start(driver, server, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("endpoint", endpoint),
		  CAIRN_STR("driver", driver_name), CAIRN_STR("node", node_id));
	while (net_signals_wait(&signals, UINT64_MAX) == SIGHUP)
		;
	cairn_log(CAIRN_LOG_INFO, "stopping", CAIRN_U64("drain_ms", drain_ms));
	net_server_drain(server, drain_ms);
	return 0;
}

const struct command cmd_driver = {
	.name = "driver",
	.summary = "serve the pool to Kubernetes as a CSI driver",
	.about =
		"Identity, Controller, Node, GroupController and SnapshotMetadata of CSI v1.12 on a\n"
		"unix socket. Ends after running calls on SIGTERM and SIGINT.\n",
	.flags = flags,
	.run = run,
};
