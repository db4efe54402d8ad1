/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_options.h"

#include <string.h>

#include "cli/commands.h"

struct cmd_repository cmd_repository;

/* Rejects options that a Job does not support. */
static int check_job(const struct cmd_backup_cluster *cluster, const struct cmd_repository *r,
		     struct cairn_err *err)
{
	bool remote = r->location && (strncmp(r->location, "s3:", 3) == 0 ||
				      strncmp(r->location, "rest:", 5) == 0);

	if (!cluster->secret)
		return cmd_usage(err,
				 "claims need --repository-secret, which the Job gets the password "
				 "from, or --csi-endpoint");
	if (r->password_file || r->password_command || r->ca_file)
		return cmd_usage(err, "a Job gets the password from --repository-secret, and "
				      "certificates from --secret-ca");
	if (cluster->repository_claim && r->location)
		return cmd_usage(err, "either --repository or --repository-claim");
	if (r->location && !remote)
		return cmd_usage(err,
				 "the Job has no access to a directory of this host: name a claim "
				 "with --repository-claim");
	/* Every user who may read the Job would see the password. */
	if (r->location && strchr(r->location, '@'))
		return cmd_usage(err,
				 "a location with a password in it belongs into the Secret, as "
				 "CAIRN_REPOSITORY");
	return 0;
}

int cmd_cluster_check(const struct cmd_backup_cluster *cluster, const char *namespace_name,
		      struct cairn_err *err)
{
	if (!namespace_name)
		return cmd_usage(err, "claims need --namespace");
	if (cluster->timeout_ms == UINT64_MAX || cluster->ready_ms == UINT64_MAX)
		return cmd_usage(err, "--timeout and --ready-timeout are lengths of time");
	if (!cluster->endpoint)
		return check_job(cluster, &cmd_repository, err);
	if (cluster->secret || cluster->repository_claim || cluster->image || cluster->job_patch ||
	    cluster->secret_ca)
		return cmd_usage(err,
				 "with --csi-endpoint there is no Job that could use a secret, a "
				 "claim, an image or a patch");
	return 0;
}

const struct command cmd_backup_command = {
	.name = "backup",
	.summary = "back up snapshots, list, restore and check backups",
	.about =
		"Backups are kept in a repository of restic's format: a directory, S3, or restic's\n"
		"REST server. Its password comes from a file, a command or the environment.\n",
	.program = "backup",
	.subcommands =
		(const struct command *const[]){
			&cmd_backup_init_command,
			&cmd_backup_create_command,
			&cmd_backup_list_command,
			&cmd_backup_describe_command,
			&cmd_backup_restore_command,
			&cmd_backup_verify_command,
			&cmd_backup_forget_command,
			&cmd_backup_copy_command,
			&cmd_backup_key_command,
			NULL,
		},
};
