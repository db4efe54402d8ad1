/* SPDX-License-Identifier: Apache-2.0 */

#include "scratch_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "cairntest.h"

char scratch_dir[64];
int scratch_dir_fd;

int scratch_dir_make(void **state)
{
	(void)state;
	scratch_template(scratch_dir, "unit");
	if (!mkdtemp(scratch_dir))
		return -1;
	scratch_dir_fd = open(scratch_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return scratch_dir_fd < 0 ? -1 : 0;
}

int scratch_dir_remove(void **state)
{
	DIR *dir = opendir(scratch_dir);
	const struct dirent *entry;

	(void)state;
	while (dir && (entry = readdir(dir)))
		if (unlinkat(scratch_dir_fd, entry->d_name, 0) != 0)
			(void)unlinkat(scratch_dir_fd, entry->d_name, AT_REMOVEDIR);
	if (dir)
		closedir(dir);
	close(scratch_dir_fd);
	return rmdir(scratch_dir);
}
