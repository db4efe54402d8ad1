/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/flags.h"
#include "cli/options.h"
#include "cli/role.h"
#include "roles/server_flags.h"

#define NAME_DEFAULT    "cairn.csi.dev"
#define ENDPOINT_PREFIX "unix://"

/* Where the kubelet looks for plugins. */
#define REGISTRATION_DIR_DEFAULT "/var/lib/kubelet/plugins_registry"

static const char *endpoint = "unix:///run/csi/socket";
static uint64_t endpoint_group = UINT64_MAX;
static const char *node_id;
static const char *driver_name = NAME_DEFAULT;
static const char *more_pools;
static bool topology;
static uint64_t fixed_length;
static uint64_t volumes_max;
static uint64_t drain_ms = SERVER_DRAIN_DEFAULT_MS;
static const char *http_endpoint;
static bool sessions;
static bool differential;
static bool deltas;
static uint64_t delta_block;
static uint64_t token_ms;
static const char *registration_path;
static const char *registration_dir = REGISTRATION_DIR_DEFAULT;

static const struct cairn_flag flags[] = {
	{.name = "endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &endpoint,
	 .value_name = "unix:///PATH",
	 .help = "socket to serve CSI on (default: unix:///run/csi/socket)"},
	{.name = "endpoint-group",
	 .kind = CAIRN_FLAG_U64,
	 .target = &endpoint_group,
	 .value_name = "GID",
	 .help = "group that may use the socket (default: the driver's own)"},
	{.name = "node-id",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &node_id,
	 .value_name = "ID",
	 .help = "this node's name in the cluster (required)"},
	{.name = "driver-name",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_name,
	 .value_name = "NAME",
	 .help = "name of the driver (default: " NAME_DEFAULT ")"},
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
	 .help = "report blocks of this one size (default: extents)"},
	{.name = "max-volumes",
	 .kind = CAIRN_FLAG_U64,
	 .target = &volumes_max,
	 .value_name = "N",
	 .help = "volumes on this node at most (default: 0, no limit)"},
	SERVER_FLAG_DRAIN_TIME(drain_ms, "calls"),
	SERVER_FLAG_HTTP_ENDPOINT(http_endpoint),
	{.name = "kubelet-registration-path",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &registration_path,
	 .value_name = "PATH",
	 .help = "register with the kubelet; the socket as it sees it"},
	{.name = "registration-dir",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &registration_dir,
	 .value_name = "DIR",
	 .help = "where the kubelet looks (default: its plugins_registry)"},
	{.name = "sessions",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &sessions,
	 .help = "also serve GetAllocated and GetDelta of snapshot sessions"},
	{.name = "differential-snapshots",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &differential,
	 .help = "also serve GetDifferentialSnapshot"},
	{.name = "snapshot-deltas",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &deltas,
	 .help = "also serve ListSnapshotDeltas"},
	{.name = "delta-block-size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &delta_block,
	 .value_name = "SIZE",
	 .help = "of blocks in ListSnapshotDeltas (default: 4K)"},
	{.name = "data-token-ttl",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &token_ms,
	 .value_name = "TIME",
	 .help = "how long a token fetches its block (default: 10m)"},
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	struct role_driver_options options = {
		.endpoint = endpoint,
		.endpoint_text = endpoint,
		.endpoint_group = endpoint_group,
		.node_id = node_id,
		.name = driver_name,
		.version = CAIRN_VERSION,
		.pool = cmd_pool_dir(),
		.more_pools = more_pools,
		.topology = topology,
		.fixed_length = fixed_length,
		.volumes_max = volumes_max,
		.drain_ms = drain_ms,
		.http_address = http_endpoint,
		.registration_path = registration_path,
		.registration_dir = registration_dir,
		.sessions = sessions,
		.differential = differential,
		.deltas = deltas,
		.delta_block = delta_block,
		.token_ms = token_ms,
	};
	role_driver_run *serve;
	int rc;

	(void)argc;
	(void)argv;
	if (!node_id)
		return cmd_usage(err, "--node-id is required");
	if (strncmp(endpoint, ENDPOINT_PREFIX, strlen(ENDPOINT_PREFIX)) == 0)
		options.endpoint += strlen(ENDPOINT_PREFIX);
	if (options.endpoint[0] != '/')
		return cmd_usage(err, "--endpoint: '%s' is not unix:///PATH", endpoint);
	if (endpoint_group != UINT64_MAX && endpoint_group >= (gid_t)-1)
		return cmd_usage(err, "--endpoint-group: there is no group %" PRIu64,
				 endpoint_group);
	if (registration_path && registration_path[0] != '/')
		return cmd_usage(err, "--kubelet-registration-path: '%s' is no absolute path",
				 registration_path);
	rc = role_load("driver", "cairn_role_driver", &serve, err);
	return rc ? rc : serve(&options, err);
}

const struct command cmd_driver = {
	.name = "driver",
	.summary = "serve the pool to Kubernetes as a CSI driver",
	.about =
		"Identity, Controller, Node, GroupController and SnapshotMetadata of CSI v1.12 on a\n"
		"unix socket; on request the flavours of the API that came before\n"
		"SnapshotMetadata. Ends after running calls on SIGTERM and SIGINT.\n",
	.flags = flags,
	.run = run,
};
