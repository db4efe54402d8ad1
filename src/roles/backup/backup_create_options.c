/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

#define JOBS_DEFAULT          4
#define JOBS_PER_NODE_DEFAULT 1
#define JOBS_MAX              32 /* CLUSTER_JOBS_MAX: a thread for each */

static const char *const modes[] = {"changed", "allocated", "full", NULL};
static const char *const bases[] = {"auto", "keep", "delete", NULL};

struct cmd_backup_create cmd_backup_create = {
	.repository = &cmd_repository,
	.jobs = JOBS_DEFAULT,
	.jobs_per_node = JOBS_PER_NODE_DEFAULT,
	.cluster = {.ready_ms = CMD_CLUSTER_READY_MS, .timeout_ms = CMD_CLUSTER_TIMEOUT_MS}};

#define DEVICE_FLAG(flag, field, value, text)                                                    \
	{                                                                                        \
		.name = (flag), .kind = CAIRN_FLAG_STRING,                                       \
		.target = &cmd_backup_create.device.field, .value_name = (value), .help = (text) \
	}

static const struct cairn_flag backup_create_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_LIMIT_FLAGS,
	CMD_OBJECT_LOCK_FLAG,
	CMD_THREADS_FLAG,
	{.name = "all",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_create.all,
	 .help = "back up all volumes of the pool"},
	{.name = "init",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_create.init,
	 .help = "make the repository if there is none"},
	{.name = "keep-snapshot",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_create.keep_snapshot,
	 .help = "keep the snapshot that is cut of a volume"},
	{.name = "mode",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_backup_create.mode,
	 .choices = modes,
	 .value_name = "changed|allocated|full",
	 .help = "what is read at best (default: changed)"},
	{.name = "parent",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &cmd_backup_create.parent,
	 .value_name = "BACKUP",
	 .help = "backup to build on (default: the nearest ancestor's)"},
	{.name = "host",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &cmd_backup_create.host,
	 .value_name = "NAME",
	 .help = "host that the backup is recorded for (default: this one)"},
	{.name = "compression",
	 .kind = CAIRN_FLAG_I64,
	 .target = &cmd_backup_create.compression,
	 .value_name = "LEVEL",
	 .help = "of zstd; -1 for none (default: 3)"},
	{.name = "fixed-chunks",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &cmd_backup_create.fixed,
	 .value_name = "SIZE",
	 .help = "cut everything to this, for comparing",
	 .hidden = true},
	{.name = "segment-size",
	 .kind = CAIRN_FLAG_SIZE,
	 .target = &cmd_backup_create.segment,
	 .value_name = "SIZE",
	 .help = "segments of this length whatever the volume's size, for tests",
	 .hidden = true},
	{.name = "push-gateway",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &cmd_backup_create.push_gateway,
	 .value_name = "URL",
	 .help = "send metrics there when it is done"},
	CMD_METRICS_FLAG(cmd_backup_create),
	CMD_TAG_FLAG(cmd_backup_create, "tag the backup with these"),
	DEVICE_FLAG("device", device, "PATH", "back up this block device"),
	{.name = "file",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &cmd_backup_create.file,
	 .value_name = "FILE",
	 .help = "back up this file, such as a disk image"},
	{.name = "changes",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &cmd_backup_create.changes,
	 .value_name = "FILE",
	 .help = "read only these extents of it; the rest is as in --parent"},
	{.name = "live",
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_backup_create.live,
	 .help = "even if it is in use: may contain incomplete writes"},
	DEVICE_FLAG("namespace", namespace_name, "NAME", "of the claim or the VolumeSnapshot"),
	CMD_CLUSTER_STRING("pvc", cmd_backup_create.cluster.claim, "NAME",
			   "back up this claim of a cluster, in a Job"),
	CAIRN_FLAG_VALUE(STRING, "selector", cmd_backup_create.selector, "LABELS",
			 "back up all claims of the namespace with these labels"),
	CAIRN_FLAG_VALUE(U64, "jobs", cmd_backup_create.jobs, "N",
			 "of these claims at a time, 1 to 32 (default: 4)"),
	CAIRN_FLAG_VALUE(U64, "jobs-per-node", cmd_backup_create.jobs_per_node, "N",
			 "of those whose volumes are on one node (default: 1)"),
	DEVICE_FLAG("volume-snapshot", snapshot, "NAME",
		    "that the device was made from, or of the claim"),
	{.name = "base",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_backup_create.base,
	 .choices = bases,
	 .value_name = "auto|keep|delete",
	 .help = "what becomes of the claim's snapshot (default: auto)"},
	CMD_CLUSTER_FLAGS(cmd_backup_create.cluster),
	DEVICE_FLAG("volume-name", volume_name, "NAME", "to record (default: NAMESPACE/CLAIM)"),
	DEVICE_FLAG("volume-id", volume_id, "ID", "the driver's (default: Kubernetes is asked)"),
	DEVICE_FLAG("snapshot-id", snapshot_id, "ID",
		    "the driver's (default: Kubernetes is asked)"),
	DEVICE_FLAG("kubeconfig", kubeconfig, "FILE",
		    "(default: $KUBECONFIG, ~/.kube/config, the pod's own)"),
	DEVICE_FLAG("context", context, "NAME", "context of the kubeconfig"),
	DEVICE_FLAG("metadata-address", address, "HOST:PORT",
		    "SnapshotMetadata service (default: from its object)"),
	DEVICE_FLAG("metadata-ca-file", ca_file, "FILE",
		    "authorities for it (default: from its object)"),
	DEVICE_FLAG("token-file", token_file, "FILE",
		    "token to show it (default: one is asked for)"),
	DEVICE_FLAG("objects", objects_file, "FILE",
		    "JSON of objects to keep with the backup of a device"),
	CAIRN_FLAG_END,
};

/* Requires exactly one kind of source, and only flags that apply to it. */
static int check_sources(int argc, struct cairn_err *err)
{
	const struct cmd_backup_device *device = &cmd_backup_create.device;
	bool cluster = device->namespace_name || device->snapshot;
	bool host = cmd_backup_create.file || (device->device && !cluster);
	int kinds =
		(argc > 0) + cmd_backup_create.all + !!cmd_backup_create.file + !!device->device;

	if (kinds > 1)
		return cmd_usage(err, "either names, --all, --file or --device");
	if (kinds == 0)
		return cmd_usage(err, "name a VOLUME or SNAPSHOT, or say --all; see 'cairn backup "
				      "create --help'");
	if (cmd_backup_create.parent && (argc > 1 || cmd_backup_create.all))
		return cmd_usage(err, "--parent is for one backup");
	if (device->device && cluster && (!device->namespace_name || !device->snapshot))
		return cmd_usage(err,
				 "a --device made from a snapshot of a cluster needs --namespace "
				 "and --volume-snapshot");
	if (!host && (cmd_backup_create.live || cmd_backup_create.changes))
		return cmd_usage(err, "--live and --changes are for --file and --device");
	if (cmd_backup_create.changes && !cmd_backup_create.parent)
		return cmd_usage(err,
				 "--changes needs --parent: the backup that they are changes of");
	return 0;
}

/* Rejects flags that would be the same for all claims, or that are not for Jobs. */
static int check_selector(struct cairn_err *err)
{
	const struct cmd_backup_create *o = &cmd_backup_create;

	if (!*o->selector)
		return cmd_usage(err, "--selector needs labels, such as app=db");
	if (o->cluster.claim)
		return cmd_usage(err, "either --pvc or --selector");
	if (o->device.snapshot || o->device.volume_name || o->parent)
		return cmd_usage(err, "--volume-snapshot, --volume-name and --parent are for one "
				      "claim: see --pvc");
	if (o->cluster.endpoint)
		return cmd_usage(err, "--csi-endpoint is for one claim: see --pvc");
	if (o->jobs < 1 || o->jobs > JOBS_MAX || o->jobs_per_node < 1)
		return cmd_usage(err, "--jobs is 1 to 32, and --jobs-per-node is above 0");
	return 0;
}

static int check_claims(int argc, struct cairn_err *err)
{
	const struct cmd_backup_device *device = &cmd_backup_create.device;
	int rc = cmd_backup_create.selector ? check_selector(err) : 0;

	if (!rc)
		rc = cmd_cluster_check(&cmd_backup_create.cluster, device->namespace_name, err);
	if (argc > 0 || device->device || cmd_backup_create.file || cmd_backup_create.all)
		return cmd_usage(err, "either names, --device, --pvc or --selector");
	if (cmd_repository.object_lock)
		return cmd_usage(err, "--object-lock is not for claims");
	if (cmd_backup_create.metrics_file)
		return cmd_usage(err, "--metrics-file is not for claims: see --push-gateway");
	if (!cmd_backup_create.cluster.endpoint && (device->ca_file || device->token_file))
		return cmd_usage(err, "--metadata-ca-file and --token-file are not for a Job");
	return rc;
}

static int backup_create_options_check(int argc, char **argv, struct cairn_err *err)
{
	int rc;

	if (cmd_backup_create.cluster.claim || cmd_backup_create.selector)
		return check_claims(argc, err);
	rc = check_sources(argc, err);
	if (rc)
		return rc;
	cmd_backup_create.names = argv;
	cmd_backup_create.n_names = argc;
	return 0;
}

const struct command cmd_backup_create_command = {
	.name = "create",
	.summary = "back up volumes or snapshots",
	.about =
		"Of a VOLUME a snapshot is cut, backed up and deleted again; several are cut at one\n"
		"point in time. A SNAPSHOT is backed up as it is.\n"
		"The first backup of a volume reads what is allocated; later ones read what changed\n"
		"since the nearest snapshot that has a backup, and take the rest from there. Every\n"
		"backup is whole to whoever restores it. Interrupted, it goes on where it was.\n"
		"With --pvc a snapshot of a claim is made, read by a Job and taken away again; with\n"
		"--selector the same of many, a few at a time, and a failure of one leaves the others\n"
		"alone; with\n"
		"--device, --namespace and --volume-snapshot the snapshot is one of a cluster too.\n"
		"Any CSI driver will do. Without those two, --device is a device of this host: all\n"
		"of it is read, and what is stored already is not stored again.\n",
	.args = (const struct cmd_arg[]){{.name = "VOLUME|SNAPSHOT",
					  .kind = CMD_ARG_SOURCE,
					  .optional = true,
					  .repeated = true},
					 CMD_ARG_END},
	.flags = backup_create_flags,
	.has_output = true,
	.check = backup_create_options_check,
};
