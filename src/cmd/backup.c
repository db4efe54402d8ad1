/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/backup.h"

#include <string.h>

#include "cmd/role.h"
#include "cmd/tree.h"

struct cmd_repository cmd_repository;

int cmd_backup_call(const char *symbol, const void *options, struct cairn_err *err)
{
	int (*call)(const void *, struct cairn_err *);
	void *found;
	int rc = role_load("backup", symbol, &found, err);

	if (rc)
		return rc;
	memcpy(&call, &found, sizeof(call)); /* as POSIX has it for dlsym() */
	return call(options, err);
}

int cmd_cluster_check(const struct cmd_backup_cluster *cluster, const char *namespace_name,
		      const char *location, struct cairn_err *err)
{
	bool by_job = !cluster->endpoint;

	if (!namespace_name)
		return cmd_usage(err, "--pvc needs --namespace");
	if (by_job && !cluster->secret)
		return cmd_usage(err, "--pvc needs --repository-secret, which the Job gets the "
				      "password from, or --csi-endpoint");
	if (!by_job && (cluster->secret || cluster->repository_claim || cluster->image ||
			cluster->job_patch || cluster->secret_ca))
		return cmd_usage(err, "with --csi-endpoint there is no Job to tell of a secret, a "
				      "claim, an image or a patch");
	if (cluster->repository_claim && location)
		return cmd_usage(err, "either --repository or --repository-claim");
	/* Whoever may look at the Job would see it. */
	if (by_job && location && strstr(location, "://") && strchr(location, '@'))
		return cmd_usage(err,
				 "a location with a password in it belongs into the Secret, as "
				 "CAIRN_REPOSITORY");
	if (cluster->timeout_ms == UINT64_MAX || cluster->ready_ms == UINT64_MAX)
		return cmd_usage(err, "--timeout and --ready-timeout are lengths of time");
	return 0;
}
