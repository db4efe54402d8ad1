/* SPDX-License-Identifier: Apache-2.0 */

/* A backup that the flags name, from the repository down to its image.
 *
 * In two steps, because a snapshot that others made has no image of ours to load and is
 * described nevertheless. Begin with {0}; what a failed step opened stays open, so that its
 * repository can still be asked, until role_backup_image_done().
 */
#ifndef CAIRN_ROLES_BACKUP_IMAGE_H
#define CAIRN_ROLES_BACKUP_IMAGE_H

#include "backup/image.h"

struct backup_choice;
struct cairn_err;
struct cmd_repository;
struct repo;
struct repo_snapshot;
struct role_open;
struct zeros;

struct role_backup_image {
	struct repo *repo;
	struct repo_snapshot *snapshot;
	struct zeros *zeros;
	struct image image;
};

/* Opens the repository and finds the backup that is meant. */
int role_backup_image_find(struct role_backup_image *i, const struct cmd_repository *repository,
			   const struct role_open *how, const struct backup_choice *choice,
			   struct cairn_err *err);

/* Loads the index and opens what was found; `path` as for backup_image_open(). */
int role_backup_image_load(struct role_backup_image *i, const char *path, struct cairn_err *err);

/* Leaves {0}. Also a cleanup function. */
void role_backup_image_done(struct role_backup_image *i);

#endif
