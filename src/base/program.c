/* SPDX-License-Identifier: Apache-2.0 */

#include "base/program.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* Another user may have made the directory, for example in /tmp. */
static bool program_dir_is_trusted(const char *path)
{
	struct stat own, dir;

	return stat("/proc/self/exe", &own) == 0 && lstat(path, &dir) == 0 &&
	       S_ISDIR(dir.st_mode) && dir.st_uid == own.st_uid && !(dir.st_mode & S_IWOTH);
}

void cairn_program_beside(const char *name, char *out, size_t size)
{
	char self[PATH_BYTES - 64], dir[PATH_BYTES];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	bool is_role;

	out[0] = '\0';
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	is_role = strncmp(slash + 1, "cairn-", 6) == 0;
	snprintf(dir, sizeof(dir), "%s%s", self, is_role ? "" : "/roles");
	if (is_role || program_dir_is_trusted(dir))
		snprintf(out, size, "%s/cairn-%s", dir, name);
}
