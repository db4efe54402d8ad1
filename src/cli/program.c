/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/command.h"

#define PATH_BYTES 4096

/* "DIRECTORY OF THIS PROGRAM/roles/cairn-NAME"; "" if the directory is unknown. */
static void program_path_beside(const char *name, char out[PATH_BYTES])
{
	char self[PATH_BYTES - 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct stat own, dir;
	char *slash;

	out[0] = '\0';
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	snprintf(out, PATH_BYTES, "%s/roles", self);
	/* Another user may have made the directory, for example in /tmp. */
	if (stat("/proc/self/exe", &own) < 0 || lstat(out, &dir) < 0 || !S_ISDIR(dir.st_mode) ||
	    dir.st_uid != own.st_uid || (dir.st_mode & S_IWOTH)) {
		out[0] = '\0';
		return;
	}
	snprintf(out, PATH_BYTES, "%s/roles/cairn-%s", self, name);
}

int cmd_program_exec(const char *name, struct cairn_err *err)
{
	char path[PATH_BYTES];

	setenv(CMD_PROGRAM_GNUTLS, CMD_PROGRAM_GNUTLS_VALUE, 0);
	program_path_beside(name, path);
	if (path[0])
		execv(path, cmd_words());
	if (!path[0] || errno == ENOENT || errno == ENOTDIR) {
		snprintf(path, sizeof(path), "%s/cairn-%s", CAIRN_ROLE_DIR, name);
		execv(path, cmd_words());
	}
	if (errno == ENOENT)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "'%s' is not installed; it is part of the package cairn",
				     path);
	return cairn_err_sys(err, errno, "execute '%s'", path);
}
