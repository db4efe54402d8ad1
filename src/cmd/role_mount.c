/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/role_backup.h"

#include "backup/mountfs.h"
#include "base/cleanup.h"
#include "cmd/output.h"

static void say_ready(void *arg)
{
	const struct cmd_mount *options = arg;

	cmd_note("backups are at %s; interrupt or unmount to end", options->dir);
}

ROLE_EXPORT int cairn_mount(const struct cmd_mount *options, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	struct role_open how = {.lock = REPO_LOCK_SHARED, .reads = true};
	struct cmd_mount copy = *options;
	struct mountfs_spec spec = {
		.dir = options->dir,
		.allow_other = options->allow_other,
		.ready = say_ready,
		.arg = &copy,
	};
	int rc = role_repo_open(options->repository, &how, &repo, err);

	if (!rc)
		rc = repo_load_index(repo, err);
	spec.repo = repo;
	return rc ? rc : mountfs_run(&spec, err);
}
