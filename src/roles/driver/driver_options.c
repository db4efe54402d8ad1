/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/driver/driver_options.h"

#include <inttypes.h>
#include <string.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

#define NAME_DEFAULT    "cairn.csi.dev"
#define ENDPOINT_PREFIX "unix://"

/* Where the kubelet looks for plugins. */
#define REGISTRATION_DIR_DEFAULT "/var/lib/kubelet/plugins_registry"

struct driver_options driver_options = {
	.endpoint = "unix:///run/csi/socket",
	.endpoint_group = UINT64_MAX,
	.name = NAME_DEFAULT,
	.drain_ms = SERVER_DRAIN_DEFAULT_MS,
	.registration_dir = REGISTRATION_DIR_DEFAULT,
};

static const struct cairn_flag driver_flags[] = {
	{.name = "endpoint",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_options.endpoint,
	 .value_name = "unix:///PATH",
	 .help = "socket to serve CSI on (default: unix:///run/csi/socket)"},
	{.name = "endpoint-group",
	 .kind = CAIRN_FLAG_U64,
	 .target = &driver_options.endpoint_group,
	 .value_name = "GID",
	 .help = "group that may use the socket (default: the driver's own)"},
	{.name = "node-id",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_options.node_id,
	 .value_name = "ID",
	 .help = "this node's name in the cluster (required)"},
	{.name = "driver-name",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_options.name,
	 .value_name = "NAME",
	 .help = "name of the driver (default: " NAME_DEFAULT ")"},
	{.name = "pools",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_options.more_pools,
	 .value_name = "NAME=DIR,...",
	 .help = "more pools, chosen by the StorageClass parameter \"pool\""},
	{.name = "topology",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &driver_options.topology,
	 .help = "say that a volume is reachable from this node only"},
	{.name = "fixed-length",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &driver_options.fixed_length,
	 .value_name = "SIZE",
	 .help = "report blocks of this one size (default: extents)"},
	{.name = "max-volumes",
	 .kind = CAIRN_FLAG_U64,
	 .target = &driver_options.volumes_max,
	 .value_name = "N",
	 .help = "volumes on this node at most (default: 0, no limit)"},
	SERVER_FLAG_DRAIN_TIME(driver_options.drain_ms, "calls"),
	SERVER_FLAG_HTTP_ENDPOINT(driver_options.http_address),
	{.name = "kubelet-registration-path",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_options.registration_path,
	 .value_name = "PATH",
	 .help = "register with the kubelet; the socket as it sees it"},
	{.name = "registration-dir",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &driver_options.registration_dir,
	 .value_name = "DIR",
	 .help = "where the kubelet looks (default: its plugins_registry)"},
	{.name = "sessions",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &driver_options.sessions,
	 .help = "also serve GetAllocated and GetDelta of snapshot sessions"},
	{.name = "differential-snapshots",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &driver_options.differential,
	 .help = "also serve GetDifferentialSnapshot"},
	{.name = "snapshot-deltas",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &driver_options.deltas,
	 .help = "also serve ListSnapshotDeltas"},
	{.name = "delta-block-size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &driver_options.delta_block,
	 .value_name = "SIZE",
	 .help = "of blocks in ListSnapshotDeltas (default: 4K)"},
	{.name = "data-token-ttl",
	 .kind = CAIRN_FLAG_DURATION,
	 .target = &driver_options.token_ms,
	 .value_name = "TIME",
	 .help = "how long a token fetches its block (default: 10m)"},
	CAIRN_FLAG_END,
};

const char *driver_endpoint_path(const char *endpoint)
{
	size_t prefix = strlen(ENDPOINT_PREFIX);

	return strncmp(endpoint, ENDPOINT_PREFIX, prefix) == 0 ? endpoint + prefix : endpoint;
}

static int driver_options_check(int argc, char **argv, struct cairn_err *err)
{
	const struct driver_options *o = &driver_options;

	(void)argc;
	(void)argv;
	if (!o->node_id)
		return cmd_usage(err, "--node-id is required");
	if (driver_endpoint_path(o->endpoint)[0] != '/')
		return cmd_usage(err, "--endpoint: '%s' is not unix:///PATH", o->endpoint);
	if (o->endpoint_group != UINT64_MAX && o->endpoint_group >= (gid_t)-1)
		return cmd_usage(err, "--endpoint-group: there is no group %" PRIu64,
				 o->endpoint_group);
	if (o->registration_path && o->registration_path[0] != '/')
		return cmd_usage(err, "--kubelet-registration-path: '%s' is not an absolute path",
				 o->registration_path);
	return 0;
}

const struct command cmd_driver = {
	.name = "driver",
	.summary = "serve the pool to Kubernetes as a CSI driver",
	.about =
		"Identity, Controller, Node, GroupController and SnapshotMetadata of CSI v1.12 on a\n"
		"unix socket; on request the flavours of the API that came before\n"
		"SnapshotMetadata. Ends after running calls on SIGTERM and SIGINT.\n",
	.flags = driver_flags,
	.check = driver_options_check,
	.program = "driver",
};
