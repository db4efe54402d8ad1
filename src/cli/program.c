/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/program.h"
#include "cli/command.h"

#define PATH_BYTES 4096

int cmd_program_exec(const char *name, struct cairn_err *err)
{
	char path[PATH_BYTES];

	setenv(CMD_PROGRAM_GNUTLS, CMD_PROGRAM_GNUTLS_VALUE, 0);
	cairn_program_beside(name, path, sizeof(path));
	if (path[0])
		execv(path, cmd_words());
	if (!path[0] || errno == ENOENT || errno == ENOTDIR) {
		snprintf(path, sizeof(path), "%s/cairn-%s", CAIRN_ROLE_DIR, name);
		execv(path, cmd_words());
	}
	if (errno == ENOENT)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "'%s' is not installed; roles are in the packages cairn, "
				     "cairn-driver and cairn-kubernetes",
				     path);
	return cairn_err_sys(err, errno, "execute '%s'", path);
}
