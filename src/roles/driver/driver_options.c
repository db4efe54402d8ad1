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
	CAIRN_FLAG_VALUE(STRING, "endpoint", driver_options.endpoint, "unix:///PATH",
			 "socket to serve CSI on (default: unix:///run/csi/socket)"),
	CAIRN_FLAG_VALUE(U64, "endpoint-group", driver_options.endpoint_group, "GID",
			 "group that may use the socket (default: the driver's own)"),
	CAIRN_FLAG_VALUE(STRING, "node-id", driver_options.node_id, "ID",
			 "this node's name in the cluster (required)"),
	CAIRN_FLAG_VALUE(STRING, "driver-name", driver_options.name, "NAME",
			 "name of the driver (default: " NAME_DEFAULT ")"),
	CAIRN_FLAG_VALUE(STRING, "pools", driver_options.more_pools, "NAME=DIR,...",
			 "more pools, chosen by the StorageClass parameter \"pool\""),
	CAIRN_FLAG_SWITCH("topology", driver_options.topology,
			  "report volumes as reachable from this node only"),
	CAIRN_FLAG_SWITCH("node-expansion", driver_options.node_expansion,
			  "volumes grow in NodeExpandVolume, by any csi-resizer"),
	CAIRN_FLAG_VALUE(SIZE, "fixed-length", driver_options.fixed_length, "SIZE",
			 "report blocks of this one size (default: extents)"),
	CAIRN_FLAG_VALUE(U64, "max-volumes", driver_options.volumes_max, "N",
			 "volumes on this node at most (default: 0, no limit)"),
	SERVER_FLAG_DRAIN_TIME(driver_options.drain_ms, "calls"),
	SERVER_FLAG_HTTP_ENDPOINT(driver_options.http_address),
	CAIRN_FLAG_VALUE(STRING, "kubelet-registration-path", driver_options.registration_path,
			 "PATH", "register with the kubelet; the socket as it sees it"),
	CAIRN_FLAG_VALUE(STRING, "registration-dir", driver_options.registration_dir, "DIR",
			 "where the kubelet looks (default: its plugins_registry)"),
	CAIRN_FLAG_SWITCH("sessions", driver_options.sessions,
			  "also serve GetAllocated and GetDelta of snapshot sessions"),
	CAIRN_FLAG_SWITCH("differential-snapshots", driver_options.differential,
			  "also serve GetDifferentialSnapshot"),
	CAIRN_FLAG_SWITCH("snapshot-deltas", driver_options.deltas,
			  "also serve ListSnapshotDeltas"),
	CAIRN_FLAG_VALUE(SIZE, "delta-block-size", driver_options.delta_block, "SIZE",
			 "of blocks in ListSnapshotDeltas (default: 4K)"),
	CAIRN_FLAG_VALUE(SIZE, "compare-max", driver_options.compare_max, "SIZE",
			 "compare unrelated snapshots up to this size (default: 0)"),
	CAIRN_FLAG_VALUE(DURATION, "data-token-ttl", driver_options.token_ms, "TIME",
			 "how long a token fetches its block (default: 10m)"),
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
		"Serves Identity, Controller, Node, GroupController and SnapshotMetadata of CSI v1.12\n"
		"on a unix socket; on request also the APIs that preceded SnapshotMetadata. On\n"
		"SIGTERM and SIGINT it finishes the running calls and ends.\n",
	.flags = driver_flags,
	.check = driver_options_check,
	.program = "driver",
};
