/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_image.h"

#include "backup/select.h"
#include "backup/zeros.h"
#include "repo/repo_snapshot.h"
#include "roles/backup/backup_common.h"

int role_backup_image_find(struct role_backup_image *i, const struct cmd_repository *repository,
			   const struct role_open *how, const struct backup_choice *choice,
			   struct cairn_err *err)
{
	int rc = role_repo_open(repository, how, &i->repo, err);

	return rc ? rc : backup_select(i->repo, choice, &i->snapshot, err);
}

int role_backup_image_load(struct role_backup_image *i, const char *path, struct cairn_err *err)
{
	int rc = repo_load_index(i->repo, err);

	if (!rc)
		rc = backup_zeros_new(&i->zeros, err);
	return rc ? rc : backup_image_open(i->repo, i->snapshot, path, i->zeros, &i->image, err);
}

void role_backup_image_done(struct role_backup_image *i)
{
	backup_image_done(&i->image);
	repo_snapshot_freep(&i->snapshot);
	backup_zeros_freep(&i->zeros);
	repo_closep(&i->repo);
	*i = (struct role_backup_image){0};
}
