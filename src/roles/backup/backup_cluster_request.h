/* SPDX-License-Identifier: Apache-2.0 */

/* The flags of a backup or a restore in a cluster as options of backup/cluster/cluster.h. */
#ifndef CAIRN_ROLES_BACKUP_CLUSTER_REQUEST_H
#define CAIRN_ROLES_BACKUP_CLUSTER_REQUEST_H

#include <jansson.h>

#include "backup/cluster/cluster.h"
#include "repo/id.h"
#include "roles/backup/backup_common.h"

#define ROLE_CLUSTER_ARGS_MAX   (40 + 2 * CAIRN_STRINGS_MAX)
#define ROLE_CLUSTER_NUMBER_MAX 24

struct role_cluster_request {
	const struct cmd_backup_create *create;   /* one of these two */
	const struct cmd_backup_restore *restore; /* is NULL */
	struct role_progress progress;
	struct cluster_options options;
	json_t *patch;
	struct repo *repo;             /* for a backup without a Job */
	char backup[REPO_ID_TEXT_MAX]; /* the backup to restore without a Job */
	const char *args[ROLE_CLUSTER_ARGS_MAX];
	unsigned n_args;
	char numbers[5][ROLE_CLUSTER_NUMBER_MAX]; /* of the repository */
	char level[ROLE_CLUSTER_NUMBER_MAX];
	unsigned n_numbers;
};

void role_cluster_request_done(struct role_cluster_request *request);

/* The options that both commands have. */
int role_cluster_request_begin(struct role_cluster_request *request,
			       const struct cmd_backup_cluster *cluster,
			       const struct cmd_repository *repository, struct cairn_err *err);

/* All options of a backup; those of work without a Job are missing. */
int role_cluster_request_create(struct role_cluster_request *request,
				const struct cmd_backup_create *options, struct cairn_err *err);

/* Adds arguments of the command in the Job. A flag or a value may be NULL. */
void role_cluster_request_add(struct role_cluster_request *request, const char *flag,
			      const char *value);
void role_cluster_request_add_repository(struct role_cluster_request *request,
					 const struct cmd_repository *repository);

/* Prints the Job's own summary: for people, and for programs. */
void role_cluster_print_create(const struct cluster_result *result);
void role_cluster_print_json(const json_t *summary);

/* Tells the push gateway, if there is one, that a backup of the claim failed. The Job may have failed
 * before it knew its volume, or may never have begun. */
void role_cluster_push_failure(const struct cmd_backup_create *options, const char *claim);

#endif
