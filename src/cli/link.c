/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

static int refuse_other(const char *path, struct cairn_err *err)
{
	struct stat st;

	if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
		return cairn_err_set(err, CAIRN_EXISTS, "'%s' exists and is not a link", path);
	return 0;
}

/* Creates the last directory only: if its parent is missing too, the path is probably wrong. */
static int make_parent(const char *path, struct cairn_err *err)
{
	cairn_auto_free char *parent = cairn_strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;

	if (!parent)
		return cairn_err_nomem(err, "link");
	if (!slash || slash == parent)
		return 0;
	*slash = '\0';
	if (mkdir(parent, 0755) < 0 && errno != EEXIST)
		return cairn_err_sys(err, errno, "make '%s'", parent);
	return 0;
}

int cmd_link_make(const char *path, const char *device, struct cairn_err *err)
{
	cairn_auto_free char *fresh = cairn_printf("%s.%ld.new", path, (long)getpid());
	int rc = refuse_other(path, err);

	if (!fresh)
		return cairn_err_nomem(err, "link");
	if (!rc)
		rc = make_parent(path, err);
	if (rc)
		return rc;
	if (symlink(device, fresh) < 0)
		return cairn_err_sys(err, errno, "make the link '%s'", path);
	if (rename(fresh, path) == 0)
		return 0;
	rc = cairn_err_sys(err, errno, "make the link '%s'", path);
	unlink(fresh);
	return rc;
}

int cmd_link_remove(const char *path, struct cairn_err *err)
{
	int rc = refuse_other(path, err);

	if (!rc && unlink(path) < 0 && errno != ENOENT)
		rc = cairn_err_sys(err, errno, "remove the link '%s'", path);
	return rc;
}
