/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

#include "backup/mountfs.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "cli/output.h"
#include "cli/progress.h"

static void say_ready(void *arg)
{
	const struct cmd_mount *options = arg;

	cmd_note("backups are at %s; interrupt or unmount to end", options->dir);
}

/* The kernel would mount over a file too, which hides it. */
static int check_directory(const char *path, struct cairn_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return cairn_err_sys(err, errno, "'%s'", path);
	if (!S_ISDIR(st.st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a directory", path);
	return 0;
}

int role_mount(const struct cmd_mount *options, struct cairn_err *err)
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
	int rc = check_directory(options->dir, err);

	if (rc)
		return rc;
	/* The repository is locked from here on, so a signal must not end the process at once. */
	cmd_catch_interrupts();
	rc = role_repo_open(options->repository, &how, &repo, err);
	if (!rc)
		rc = repo_load_index(repo, err);
	if (rc)
		return rc;
	/* Reset the handlers: FUSE installs its own only where no other is set. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (cmd_interrupted())
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	spec.repo = repo;
	return backup_mountfs_run(&spec, err);
}
