/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <string.h>

#include "roles/backup/backup_options.h"

struct cmd_backup_restore cmd_backup_restore = {
	.repository = &cmd_repository,
	.cluster = {.ready_ms = CMD_CLUSTER_READY_MS, .timeout_ms = CMD_CLUSTER_TIMEOUT_MS}};

static const struct cairn_flag backup_restore_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CMD_LIMIT_FLAGS,
	CMD_THREADS_FLAG,
	CMD_CHOICE_FLAGS(cmd_backup_restore),
	CAIRN_FLAG_VALUE(STRING, "to", cmd_backup_restore.to, "FILE|DEVICE|VOLUME",
			 "where to; with a '/' it is a path"),
	CAIRN_FLAG_SWITCH("overwrite", cmd_backup_restore.overwrite,
			  "write over what exists there"),
	CAIRN_FLAG_SWITCH("onto-other-volume", cmd_backup_restore.other_volume,
			  "overwrite a volume of another id or size than the backup's"),
	CAIRN_FLAG_VALUE(STRING, "base", cmd_backup_restore.base, "BACKUP",
			 "the target holds this backup: write what differs"),
	CAIRN_FLAG_VALUE(STRING, "path", cmd_backup_restore.path, "PATH",
			 "restore this file of the backup, whatever made it"),
	CAIRN_FLAG_SWITCH("verify", cmd_backup_restore.verify, "read all of it back and compare"),
	CMD_CLUSTER_STRING("namespace", cmd_backup_restore.namespace_name, "NAME", "of the claim"),
	CMD_CLUSTER_STRING("pvc", cmd_backup_restore.cluster.claim, "NAME",
			   "make this claim in a cluster and restore to it, in a Job"),
	CMD_CLUSTER_STRING("volume-mode", cmd_backup_restore.volume_mode, "Block|Filesystem",
			   "of the claim (default: as it was)"),
	CAIRN_FLAG_VALUE(SIZE, "size", cmd_backup_restore.size, "SIZE",
			 "of the claim (default: as it was)"),
	CMD_CLUSTER_FLAGS(cmd_backup_restore.cluster),
	CMD_CLUSTER_STRING("kubeconfig", cmd_backup_restore.kubeconfig, "FILE",
			   "(default: $KUBECONFIG, ~/.kube/config, the pod's own)"),
	CMD_CLUSTER_STRING("context", cmd_backup_restore.context, "NAME",
			   "context of the kubeconfig"),
	CAIRN_FLAG_END,
};

static int backup_restore_options_check(int argc, char **argv, struct cairn_err *err)
{
	const char *mode = cmd_backup_restore.volume_mode;

	(void)argc;
	cmd_backup_restore.id = argv[0];
	if (cmd_backup_restore.cluster.claim) {
		int rc = cmd_cluster_check(&cmd_backup_restore.cluster,
					   cmd_backup_restore.namespace_name, err);

		if (cmd_backup_restore.to || cmd_backup_restore.base || cmd_backup_restore.path ||
		    cmd_backup_restore.overwrite || cmd_backup_restore.other_volume)
			return cmd_usage(err, "--to, --base, --path, --overwrite and "
					      "--onto-other-volume are not for --pvc");
		if (mode && strcmp(mode, "Block") != 0 && strcmp(mode, "Filesystem") != 0)
			return cmd_usage(err, "--volume-mode is Block or Filesystem");
		return rc;
	}
	if (!cmd_backup_restore.to)
		return cmd_usage(err, "--to or --pvc is required");
	return 0;
}

const struct command cmd_backup_restore_command = {
	.name = "restore",
	.summary = "write a backup to a file, a device, a volume or a claim",
	.about = CMD_BACKUP_NAMES
	"A new file appears when it is whole. On a volume that has a snapshot with a backup,\n"
	"only what differs is written; a volume of another id or size is not overwritten\n"
	"unless --onto-other-volume is given. With --pvc a new claim of a cluster is made, by\n"
	"a Job that writes it.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = backup_restore_flags,
	.has_output = true,
	.check = backup_restore_options_check,
};
