/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_options.h"

#include <string.h>

#include "cli/commands.h"
#include "cli/role.h"

struct cmd_repository cmd_repository;

int cmd_backup_call(const char *symbol, const void *options, struct cairn_err *err)
{
	int (*call)(const void *, struct cairn_err *);
	int rc = role_load("backup", symbol, &call, err);

	return rc ? rc : call(options, err);
}

/* What a Job cannot be given. */
static int check_job(const struct cmd_backup_cluster *cluster, const struct cmd_repository *r,
		     struct cairn_err *err)
{
	bool remote = r->location && (strncmp(r->location, "s3:", 3) == 0 ||
				      strncmp(r->location, "rest:", 5) == 0);

	if (!cluster->secret)
		return cmd_usage(err, "--pvc needs --repository-secret, which the Job gets the "
				      "password from, or --csi-endpoint");
	if (r->password_file || r->password_command || r->ca_file)
		return cmd_usage(err, "a Job gets the password from --repository-secret, and "
				      "certificates from --secret-ca");
	if (cluster->repository_claim && r->location)
		return cmd_usage(err, "either --repository or --repository-claim");
	if (r->location && !remote)
		return cmd_usage(err, "a directory of this host is none of the Job's: name a claim "
				      "with --repository-claim");
	/* Whoever may look at the Job would see it. */
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
		return cmd_usage(err, "--pvc needs --namespace");
	if (cluster->timeout_ms == UINT64_MAX || cluster->ready_ms == UINT64_MAX)
		return cmd_usage(err, "--timeout and --ready-timeout are lengths of time");
	if (!cluster->endpoint)
		return check_job(cluster, &cmd_repository, err);
	if (cluster->secret || cluster->repository_claim || cluster->image || cluster->job_patch ||
	    cluster->secret_ca)
		return cmd_usage(err, "with --csi-endpoint there is no Job to tell of a secret, a "
				      "claim, an image or a patch");
	return 0;
}
