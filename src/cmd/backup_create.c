/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include "cmd/backup.h"

static const char *const modes[] = {"changed", "allocated", "full", NULL};
static const char *const bases[] = {"auto", "keep", "delete", NULL};

static struct cmd_backup_create options = {
	.cluster = {.ready_ms = CMD_CLUSTER_READY_MS, .timeout_ms = CMD_CLUSTER_TIMEOUT_MS}};

#define DEVICE_FLAG(flag, field, value, text)                                               \
	{                                                                                   \
		.name = (flag), .kind = CAIRN_FLAG_STRING, .target = &options.device.field, \
		.value_name = (value), .help = (text)                                       \
	}

static const struct cairn_flag flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_THREADS_FLAG,
	{.name = "mode",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &options.mode,
	 .choices = modes,
	 .value_name = "changed|allocated|full",
	 .help = "what is read at best (default: changed)"},
	{.name = "parent",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.parent,
	 .value_name = "BACKUP",
	 .help = "backup to build on (default: the nearest ancestor's)"},
	{.name = "host",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.host,
	 .value_name = "NAME",
	 .help = "host that the backup is recorded for (default: this one)"},
	{.name = "compression",
	 .kind = CAIRN_FLAG_I64,
	 .target = &options.compression,
	 .value_name = "LEVEL",
	 .help = "of zstd; -1 for none (default: 3)"},
	{.name = "fixed-chunks",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &options.fixed,
	 .value_name = "SIZE",
	 .help = "cut everything to this, for comparing",
	 .hidden = true},
	{.name = "push-gateway",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.push_gateway,
	 .value_name = "URL",
	 .help = "send metrics there when it is done"},
	DEVICE_FLAG("device", device, "PATH", "back up this device, made from a VolumeSnapshot"),
	DEVICE_FLAG("namespace", namespace_name, "NAME", "of the claim or the VolumeSnapshot"),
	CMD_CLUSTER_STRING("pvc", options.cluster.claim, "NAME",
			   "back up this claim of a cluster, in a Job"),
	DEVICE_FLAG("volume-snapshot", snapshot, "NAME",
		    "that the device was made from, or of the claim"),
	{.name = "base",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &options.base,
	 .choices = bases,
	 .value_name = "auto|keep|delete",
	 .help = "what becomes of the claim's snapshot (default: auto)"},
	CMD_CLUSTER_FLAGS(options.cluster),
	DEVICE_FLAG("volume-name", volume_name, "NAME", "to record (default: NAMESPACE/CLAIM)"),
	DEVICE_FLAG("volume-id", volume_id, "ID", "the driver's (default: Kubernetes is asked)"),
	DEVICE_FLAG("snapshot-id", snapshot_id, "ID",
		    "the driver's (default: Kubernetes is asked)"),
	DEVICE_FLAG("kubeconfig", kubeconfig, "FILE",
		    "(default: $KUBECONFIG, ~/.kube/config, the pod's own)"),
	DEVICE_FLAG("context", context, "NAME", "context of the kubeconfig"),
	DEVICE_FLAG("metadata-address", address, "HOST:PORT",
		    "SnapshotMetadata service (default: as its object says)"),
	DEVICE_FLAG("metadata-ca-file", ca_file, "FILE",
		    "authorities for it (default: as its object says)"),
	DEVICE_FLAG("token-file", token_file, "FILE",
		    "token to show it (default: one is asked for)"),
	DEVICE_FLAG("objects", objects_file, "FILE",
		    "JSON of objects to keep with the backup of a device"),
	CAIRN_FLAG_END,
};

static int run(int argc, char **argv, struct cairn_err *err)
{
	const struct cmd_backup_device *device = &options.device;

	options.repository = &cmd_repository;
	if (options.cluster.claim) {
		int rc = cmd_cluster_check(&options.cluster, device->namespace_name, err);

		if (argc > 0 || device->device)
			return cmd_usage(err, "either SNAPSHOT, --device or --pvc");
		if (!options.cluster.endpoint && (device->ca_file || device->token_file))
			return cmd_usage(err,
					 "--metadata-ca-file and --token-file are not for a Job");
		return rc ? rc : cmd_backup_call("cairn_backup_create_cluster", &options, err);
	}
	if (argc == 0 && !device->device)
		return cmd_usage(err, "SNAPSHOT is missing; see 'cairn backup create --help'");
	if (argc > 0 && device->device)
		return cmd_usage(err, "either SNAPSHOT or --device");
	if (device->device && (!device->namespace_name || !device->snapshot))
		return cmd_usage(err, "--device needs --namespace and --volume-snapshot");
	options.snapshot = argc > 0 ? argv[0] : NULL;
	return cmd_backup_call("cairn_backup_create", &options, err);
}

const struct command cmd_backup_create_command = {
	.name = "create",
	.summary = "back up a snapshot",
	.about =
		"The first backup of a volume reads what is allocated; later ones read what changed\n"
		"since the nearest snapshot that has a backup, and take the rest from there. Every\n"
		"backup is whole to whoever restores it. Interrupted, it goes on where it was.\n"
		"With --pvc a snapshot of a claim is made, read by a Job and taken away again; with\n"
		"--device the snapshot is one of a cluster too. Any CSI driver will do.\n",
	.args =
		(const struct cmd_arg[]){
			{.name = "SNAPSHOT", .kind = CMD_ARG_SNAPSHOT, .optional = true},
			CMD_ARG_END},
	.flags = flags,
	.has_output = true,
	.run = run,
};
