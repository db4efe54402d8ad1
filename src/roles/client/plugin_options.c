/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/plugin.h"

#include <stddef.h>

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"

#define MANUAL "kubectl-cairn"

struct plugin_options plugin_options = {
	.listing = CLIENT_FLAGS_INIT,
	.map = CMD_MAP_OPTIONS_INIT,
};

/* clang-format off */
#define PLUGIN_CLUSTER_FLAGS \
	CLIENT_FLAG_TEXT("kubeconfig", 0, plugin_options.listing.options.kubeconfig, "FILE", \
			 "(default: $KUBECONFIG, ~/.kube/config, the pod's own)"), \
	CLIENT_FLAG_TEXT("context", 0, plugin_options.listing.options.context, "NAME", \
			 "context of the kubeconfig (default: its current one)")
#define PLUGIN_DRIVER_FLAG(text) \
	CLIENT_FLAG_TEXT("driver", 0, plugin_options.listing.options.driver, "NAME", text)
#define PLUGIN_NAMESPACE_FLAG \
	CLIENT_FLAG_TEXT("namespace", 'n', plugin_options.listing.query.namespace_name, "NAME", \
			 "use this namespace (default: the context's)")
#define PLUGIN_NAMESPACE_FLAGS \
	PLUGIN_NAMESPACE_FLAG, \
	{.name = "all-namespaces", .letter = 'A', .kind = CAIRN_FLAG_BOOL, \
	 .target = &plugin_options.all_namespaces, .help = "look at all namespaces"}
/* clang-format on */

static const struct cairn_flag nodes_flags[] = {
	PLUGIN_DRIVER_FLAG("only this CSI driver (default: Cairn's)"),
	PLUGIN_CLUSTER_FLAGS,
	CAIRN_FLAG_END,
};

static const struct cairn_flag volumes_flags[] = {
	PLUGIN_NAMESPACE_FLAGS,
	PLUGIN_DRIVER_FLAG("only this CSI driver (default: Cairn's)"),
	PLUGIN_CLUSTER_FLAGS,
	CAIRN_FLAG_END,
};

static const struct cairn_flag snapshots_flags[] = {
	PLUGIN_NAMESPACE_FLAGS,
	PLUGIN_DRIVER_FLAG("only this CSI driver (default: all)"),
	PLUGIN_CLUSTER_FLAGS,
	CAIRN_FLAG_END,
};

static const struct cairn_flag backups_flags[] = {
	PLUGIN_NAMESPACE_FLAGS,
	PLUGIN_CLUSTER_FLAGS,
	CAIRN_FLAG_END,
};

static const struct cairn_flag delta_flags[] = {
	PLUGIN_NAMESPACE_FLAG,
	CLIENT_SERVICE_FLAGS(plugin_options.listing),
	CAIRN_FLAG_END,
};

static const struct cairn_flag map_flags[] = {
	PLUGIN_NAMESPACE_FLAG,
	CMD_MAP_FLAGS(plugin_options.map),
	CLIENT_SERVICE_FLAGS(plugin_options.listing),
	CAIRN_FLAG_END,
};

static int check_namespaces(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	if (plugin_options.all_namespaces && plugin_options.listing.query.namespace_name)
		return cmd_usage(err, "either --namespace or --all-namespaces");
	return 0;
}

static int check_blocks_of(int argc, char **argv, struct cairn_err *err)
{
	const struct cairn_client_options *o = &plugin_options.listing.options;
	int rc = cmd_map_check(&plugin_options.map, err);

	plugin_options.base = argc > 1 ? argv[0] : NULL;
	plugin_options.target = argv[argc - 1];
	if (rc)
		return cmd_usage(err, "%s", err->msg);
	if (!o->service_account != !o->service_account_namespace)
		return cmd_usage(err,
				 "--service-account and --service-account-namespace go together");
	plugin_options.listing.options.token_expiry_seconds =
		plugin_options.listing.token_expiry_ms / 1000;
	return 0;
}

const struct command cmd_plugin_nodes = {
	.name = "nodes",
	.alias = "node",
	.summary = "list the nodes where drivers run, and their pools",
	.about = "The space of a pool comes from the driver's metrics, through the API server; it\n"
		 "needs the right to get pods/proxy.\n",
	.flags = nodes_flags,
	.has_output = true,
	.program = "client",
	.manual = MANUAL,
};

const struct command cmd_plugin_volumes = {
	.name = "volumes",
	.alias = "volume",
	.summary = "list claims with their node, size and snapshots",
	.flags = volumes_flags,
	.has_output = true,
	.check = check_namespaces,
	.program = "client",
	.manual = MANUAL,
};

const struct command cmd_plugin_snapshots = {
	.name = "snapshots",
	.alias = "snapshot",
	.summary = "list VolumeSnapshots and the base of each one's delta",
	.about = "BASE is the newest earlier VolumeSnapshot of the same volume, if the driver can\n"
		 "list what changed since: 'kubectl cairn delta BASE NAME'.\n",
	.flags = snapshots_flags,
	.has_output = true,
	.check = check_namespaces,
	.program = "client",
	.manual = MANUAL,
};

const struct command cmd_plugin_backups = {
	.name = "backups",
	.summary = "list schedules, runs and bases of backups of claims",
	.about = "These are the cluster's objects. 'kubectl cairn backup list' lists the backups\n"
		 "of a repository.\n",
	.flags = backups_flags,
	.has_output = true,
	.check = check_namespaces,
	.program = "client",
	.manual = MANUAL,
};

const struct command cmd_plugin_delta = {
	.name = "delta",
	.summary = "list the blocks that changed between two VolumeSnapshots",
	.about = "BASE and TARGET are names, or NAMESPACE/NAME. Without BASE, lists the allocated\n"
		 "blocks of TARGET. Asks the SnapshotMetadata service of the driver; what is not\n"
		 "listed has not changed. 'cairn list' prints the service's own records.\n",
	.args = (const struct cmd_arg[]){{.name = "BASE", .kind = CMD_ARG_TEXT, .optional = true},
					 {.name = "TARGET", .kind = CMD_ARG_TEXT},
					 CMD_ARG_END},
	.flags = delta_flags,
	.has_output = true,
	.check = check_blocks_of,
	.program = "client",
	.manual = MANUAL,
};

const struct command cmd_plugin_map = {
	.name = "map",
	.summary = "draw what changed between two VolumeSnapshots",
	.about = "Each sign stands for an equal part of the volume: unchanged, changed, zeroed or\n"
		 "hole. Without BASE, draws what TARGET has allocated.\n",
	.args = (const struct cmd_arg[]){{.name = "BASE", .kind = CMD_ARG_TEXT, .optional = true},
					 {.name = "TARGET", .kind = CMD_ARG_TEXT},
					 CMD_ARG_END},
	.flags = map_flags,
	.has_output = true,
	.check = check_blocks_of,
	.program = "client",
	.manual = MANUAL,
};
