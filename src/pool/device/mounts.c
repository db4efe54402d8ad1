/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "pool/device/mountinfo.h"

#define FDINFO_MAX   4096U
#define FDINFO_MOUNT "mnt_id:\t"

static int read_table(char **ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t len = 0;
	int rc = cairn_file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_TEXT_MAX, &text, &len,
				 err);

	if (rc < 0)
		return rc;
	/* A truncated table could hide the requested mount. */
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

/* btrfs has an anonymous device number (major 0): there the source names the block device. */
static bool entry_is_on(const struct mountinfo_entry *entry, dev_t device)
{
	if (entry->major != 0)
		return makedev(entry->major, entry->minor) == device;
	return source_device(entry->source) == device;
}

/* Finds the first entry that matches; *ret_text owns what the entry borrows. */
static int mounts_search(bool (*match)(const struct mountinfo_entry *entry, uint64_t wanted),
			 uint64_t wanted, char **ret_text, struct mountinfo_entry *ret,
			 struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	char *cursor;
	int rc = read_table(&text, err);

	if (rc < 0)
		return rc;
	cursor = text;
	while (pool_mountinfo_next(&cursor, &entry)) {
		if (!match(&entry, wanted))
			continue;
		*ret = entry;
		*ret_text = cairn_take(text);
		return 0;
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "the mount is not in the mount table");
}

/* False for a mount that another one covers, or that was just unmounted. */
static bool entry_shows_device(const struct mountinfo_entry *entry, uint64_t device)
{
	uint64_t id = 0;

	return entry_is_on(entry, (dev_t)device) &&
	       mount_id_of(AT_FDCWD, entry->mount_point, &id) == 0 && id == entry->id;
}

int pool_mounts_find_device(dev_t device, char **ret_mount, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	int rc = mounts_search(entry_shows_device, device, &text, &entry, err);

	*ret_mount = NULL;
	if (rc < 0)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	*ret_mount = cairn_strdup(entry.mount_point);
	return *ret_mount ? 0 : cairn_err_nomem(err, "mount point");
}

static bool entry_has_id(const struct mountinfo_entry *entry, uint64_t id)
{
	return entry->id == id;
}

int pool_mounts_filesystem_of(int fd, uint64_t *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	uint64_t id = 0;
	int rc = mount_id_of(fd, "", &id);

	if (rc < 0)
		return cairn_err_sys(err, -rc, "mount id");
	rc = mounts_search(entry_has_id, id, &text, &entry, err);
	if (rc < 0)
		return rc;
	*ret = (uint64_t)entry.major << 32 | entry.minor;
	return 0;
}

/* Does not ask the filesystem, which may have shut down and not answer. */
static int mount_id_by_fdinfo(int fd, uint64_t *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	char name[40];
	size_t len;
	char *at;
	int rc;

	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
	rc = cairn_file_read(AT_FDCWD, name, FDINFO_MAX, &text, &len, err);
	if (rc < 0)
		return rc;
	at = strstr(text, FDINFO_MOUNT);
	if (!at)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the kernel does not report mount ids");
	at += strlen(FDINFO_MOUNT);
	at[strspn(at, "0123456789")] = '\0';
	return cairn_parse_u64(at, ret, err);
}

/* The entry of the mount that `path` is on, and whether it is its root. */
static int look_at_dead(const char *path, bool *ret_root, char **ret_text,
			struct mountinfo_entry *ret, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
	char link[40];
	char where[PATH_MAX];
	uint64_t id = 0;
	ssize_t n;
	int rc;

	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	rc = mount_id_by_fdinfo(fd, &id, err);
	if (!rc)
		rc = mounts_search(entry_has_id, id, ret_text, ret, err);
	if (rc)
		return rc;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, where, sizeof(where) - 1);
	if (n < 0)
		return cairn_err_sys(err, errno, "read '%s'", link);
	where[n] = '\0';
	*ret_root = strcmp(where, ret->mount_point) == 0;
	return 0;
}

static int look_at_live(const char *path, char **ret_text, struct mountinfo_entry *ret,
			struct cairn_err *err)
{
	uint64_t id = 0;
	int rc = mount_id_of(AT_FDCWD, path, &id);

	if (rc < 0)
		return cairn_err_sys(err, -rc, "mount id of '%s'", path);
	rc = mounts_search(entry_has_id, id, ret_text, ret, err);
	return rc ? cairn_err_wrap(err, "'%s'", path) : 0;
}

int pool_mounts_look(const char *path, struct mounts_at *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	struct statx stx;
	bool root;
	int rc = statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &stx) < 0 ? errno : 0;

	*ret = (struct mounts_at){0};
	if (rc == ENOENT)
		return 0;
	if (rc) {
		rc = look_at_dead(path, &root, &text, &entry, err);
	} else {
		root = (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
		rc = root ? look_at_live(path, &text, &entry, err) : 0;
	}
	if (rc || !root)
		return rc;
	ret->mounted = true;
	ret->read_only = entry.read_only;
	ret->stopped = entry.stopped;
	ret->source =
		entry.major != 0 ? makedev(entry.major, entry.minor) : source_device(entry.source);
	snprintf(ret->fs_type, sizeof(ret->fs_type), "%s", entry.fs_type);
	return 0;
}

int pool_mounts_source_of(const char *path, dev_t *ret, struct cairn_err *err)
{
	struct mounts_at at;
	int rc = pool_mounts_look(path, &at, err);

	*ret = rc ? 0 : at.source;
	return rc;
}

int pool_mounts_is_mount_point(const char *path, bool *ret, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct mountinfo_entry entry;
	struct statx stx;

	*ret = false;
	if (statx(AT_FDCWD, path, AT_NO_AUTOMOUNT, STATX_TYPE, &stx) == 0) {
		*ret = (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
		return 0;
	}
	return errno == ENOENT ? 0 : look_at_dead(path, ret, &text, &entry, err);
}
