/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/mountinfo.h"

static int read_table(char **ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t len = 0;
	int rc = cairn_file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_TEXT_MAX, &text, &len,
				 err);

	if (rc < 0)
		return rc;
	/* A table cut off at the limit could hide the mount that is asked for. */
	if (len == MOUNTINFO_TEXT_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "the mount table has more than %u bytes",
				     MOUNTINFO_TEXT_MAX);
	*ret = cairn_take(text);
	return 0;
}

/* The mount that `path` leads to, or that `fd` is on when `path` is "". */
static int mount_id_of(int fd, const char *path, uint64_t *ret)
{
	struct statx stx;

	if (statx(fd, path, AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_MNT_ID,
		  &stx) < 0)
		return -errno;
	if (!(stx.stx_mask & STATX_MNT_ID))
		return -EOPNOTSUPP;
	*ret = stx.stx_mnt_id;
	return 0;
}

/* The block device that the source names; 0 for none. */
static dev_t source_device(const char *source)
{
	struct stat st;

	if (source[0] != '/' || stat(source, &st) < 0 || !S_ISBLK(st.st_mode))
		return 0;
	return st.st_rdev;
}

static bool entry_is_on(const struct mountinfo_entry *entry, dev_t device)
{
	if (entry->major != 0)
		return makedev(entry->major, entry->minor) == device;
	return source_device(entry->source) == device;
}

int mounts_find_device(dev_t device, char **ret_mount, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	char *cursor;
	int rc = read_table(&text, err);

	if (rc < 0)
		return rc;
	cursor = text;
	while (mountinfo_next(&cursor, &entry)) {
		uint64_t id = 0;
		char *copy;

		if (!entry_is_on(&entry, device))
			continue;
		if (mount_id_of(AT_FDCWD, entry.mount_point, &id) < 0 || id != entry.id)
			continue; /* covered by another mount, or just gone */
		copy = cairn_strdup(entry.mount_point);
		if (!copy)
			return cairn_err_nomem(err, "mount point");
		*ret_mount = copy;
		return 0;
	}
	*ret_mount = NULL;
	return 0;
}

/* Finds the entry of a mount id; *ret_text owns what the entry borrows. */
static int find_entry(uint64_t id, char **ret_text, struct mountinfo_entry *ret,
		      struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	char *cursor;
	int rc = read_table(&text, err);

	if (rc < 0)
		return rc;
	cursor = text;
	while (mountinfo_next(&cursor, &entry)) {
		if (entry.id != id)
			continue;
		*ret = entry;
		*ret_text = cairn_take(text);
		return 0;
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "the mount is not in the mount table");
}

int mounts_filesystem_of(int fd, uint64_t *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	uint64_t id = 0;
	int rc = mount_id_of(fd, "", &id);

	if (rc < 0)
		return cairn_err_sys(err, -rc, "mount id");
	rc = find_entry(id, &text, &entry, err);
	if (rc < 0)
		return rc;
	*ret = (uint64_t)entry.major << 32 | entry.minor;
	return 0;
}

int mounts_source_of(const char *path, dev_t *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	bool mounted;
	uint64_t id = 0;
	int rc = mounts_is_mount_point(path, &mounted, err);

	if (rc < 0)
		return rc;
	if (!mounted) {
		*ret = 0;
		return 0;
	}
	rc = mount_id_of(AT_FDCWD, path, &id);
	if (rc < 0)
		return cairn_err_sys(err, -rc, "mount id of '%s'", path);
	rc = find_entry(id, &text, &entry, err);
	if (rc < 0)
		return cairn_err_wrap(err, "'%s'", path);
	*ret = entry.major != 0 ? makedev(entry.major, entry.minor) : source_device(entry.source);
	return 0;
}

int mounts_is_mount_point(const char *path, bool *ret, struct cairn_err *err)
{
	struct statx stx;

	if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &stx) < 0) {
		if (errno != ENOENT)
			return cairn_err_sys(err, errno, "stat '%s'", path);
		*ret = false;
		return 0;
	}
	*ret = (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
	return 0;
}
