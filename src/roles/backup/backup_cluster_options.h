/* SPDX-License-Identifier: Apache-2.0 */

/* Flags of backups and restores in a cluster; both commands have them. */
#ifndef CAIRN_ROLES_BACKUP_CLUSTER_OPTIONS_H
#define CAIRN_ROLES_BACKUP_CLUSTER_OPTIONS_H

#include <stdint.h>

#include "base/flags.h"

struct cairn_err;

#define CMD_CLUSTER_READY_MS   300000U
#define CMD_CLUSTER_TIMEOUT_MS 86400000U

struct cmd_backup_cluster {
	const char *claim; /* NULL: not in a cluster */
	const char *storage_class;
	const char *snapshot_class;
	const char *image;
	const char *service_account;
	const char *secret;
	const char *secret_ca;
	const char *repository_claim;
	const char *job_patch;
	const char *endpoint;
	uint64_t ready_ms;
	uint64_t timeout_ms;
};

#define CMD_CLUSTER_STRING(flag, where, value, text)                           \
	{                                                                      \
		.name = (flag), .kind = CAIRN_FLAG_STRING, .target = &(where), \
		.value_name = (value), .help = (text)                          \
	}

#define CMD_CLUSTER_TIME(flag, where, text)                                      \
	{                                                                        \
		.name = (flag), .kind = CAIRN_FLAG_DURATION, .target = &(where), \
		.value_name = "TIME", .help = (text)                             \
	}

/* `c` is a struct cmd_backup_cluster. */
#define CMD_CLUSTER_FLAGS(c)                                                                   \
	CMD_CLUSTER_STRING("storage-class", (c).storage_class, "NAME",                         \
			   "of claims that are made (default: as the claim has it)"),          \
		CMD_CLUSTER_STRING("snapshot-class", (c).snapshot_class, "NAME",               \
				   "VolumeSnapshotClass (default: the driver's)"),             \
		CMD_CLUSTER_STRING("image", (c).image, "NAME",                                 \
				   "of the Job (default: $CAIRN_IMAGE, localhost/cairn)"),     \
		CMD_CLUSTER_STRING("service-account", (c).service_account, "NAME",             \
				   "of the Job's pod (default: the namespace's)"),             \
		CMD_CLUSTER_STRING("repository-secret", (c).secret, "NAME",                    \
				   "Secret whose keys are the Job's environment"),             \
		CMD_CLUSTER_STRING("secret-ca", (c).secret_ca, "KEY",                          \
				   "of the Secret: certificates to trust for the repository"), \
		CMD_CLUSTER_STRING("repository-claim", (c).repository_claim, "NAME",           \
				   "claim that holds the repository, instead of a location"),  \
		CMD_CLUSTER_STRING("job-patch", (c).job_patch, "FILE",                         \
				   "JSON merge patch for the Job: node, tolerations"),         \
		CMD_CLUSTER_STRING("csi-endpoint", (c).endpoint, "ADDRESS",                    \
				   "no Job: the driver's socket publishes the volume here"),   \
		CMD_CLUSTER_TIME("ready-timeout", (c).ready_ms,                                \
				 "for snapshot, volume and pod, each (default: 5m)"),          \
		CMD_CLUSTER_TIME("timeout", (c).timeout_ms, "for the Job (default: 24h)")

/* Flags that contradict each other, or lack something; those of the repository too. */
int cmd_cluster_check(const struct cmd_backup_cluster *cluster, const char *namespace_name,
		      struct cairn_err *err);

#endif
