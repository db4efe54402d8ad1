/* SPDX-License-Identifier: Apache-2.0 */

/* Restoring to files and block devices. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/target.h"
#include "backup/target_impl.h"
#include "backup/target_mark.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"

#define FILE_MODE 0600 /* protects the data of the volume */
#define ID_SHOWN  16   /* characters of the backup's id in the name of an unfinished file */

static int measure_old(const struct target_spec *spec, struct target *target, struct cairn_err *err)
{
	struct stat st = {0};

	if (target->device ? ioctl(target->fd, BLKGETSIZE64, &target->was) < 0
			   : fstat(target->fd, &st) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", spec->to);
	if (!target->device)
		target->was = (uint64_t)st.st_size;
	return 0;
}

static int check_device_size(const struct target_spec *spec, const struct target *target,
			     struct cairn_err *err)
{
	if (!target->device || target->was >= spec->size)
		return 0;
	return cairn_err_set(err, CAIRN_RANGE,
			     "'%s' has %" PRIu64 " bytes, the volume had %" PRIu64, spec->to,
			     target->was, spec->size);
}

/* Closing the descriptor releases the lock. */
static int lock_file(int fd, const char *path, struct cairn_err *err)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return cairn_err_sys(err, errno, "lock '%s'", path);
	return cairn_err_set(err, CAIRN_ABORTED, "another process is restoring to '%s'", path);
}

/* O_EXCL: not a device that is mounted or otherwise in use. */
static int open_old(const char *path, struct target *target, struct cairn_err *err)
{
	target->fd = open(path, O_RDWR | O_CLOEXEC | (target->device ? O_EXCL : O_NOFOLLOW));
	if (target->fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	return target->device ? 0 : lock_file(target->fd, path, err);
}

/* An existing file is overwritten if that was requested, or if an interrupted restore
 * of the same backup left it. */
static int open_existing(const struct target_spec *spec, struct target *target,
			 struct cairn_err *err)
{
	char marked[POOL_RESTORING_MAX + 1];
	int rc = open_old(spec->to, target, err);

	if (!rc)
		rc = backup_target_mark_read(target->fd, marked, err);
	if (!rc)
		rc = measure_old(spec, target, err);
	if (rc)
		return rc;
	target->marks = true;
	target->size = spec->size;
	target->unfinished = marked[0] != '\0';
	target->resumes = target->unfinished && strcmp(marked, spec->backup) == 0;
	if (target->resumes || spec->overwrite)
		return check_device_size(spec, target, err);
	if (target->unfinished)
		return cairn_err_set(err, CAIRN_EXISTS,
				     "'%s' holds an unfinished restore of backup %.8s; --overwrite "
				     "restores over it",
				     spec->to, marked);
	return cairn_err_set(err, CAIRN_EXISTS, "'%s' exists; --overwrite restores over it",
			     spec->to);
}

/* The file of a killed restore of the same backup is reused, but not one that
 * another process is writing. It may be renamed between the opening and the
 * lock. */
static int open_partial(struct target *target, struct cairn_err *err)
{
	struct stat locked;
	struct stat named;
	int rc;

	target->fd = open(target->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	if (target->fd < 0)
		return cairn_err_sys(err, errno, "make '%s'", target->partial);
	rc = lock_file(target->fd, target->path, err);
	if (rc)
		return rc;
	if (fstat(target->fd, &locked) < 0 || stat(target->partial, &named) < 0 ||
	    locked.st_ino != named.st_ino || locked.st_dev != named.st_dev)
		return cairn_err_set(err, CAIRN_ABORTED, "another process restored to '%s'",
				     target->path);
	target->resumes = target->unfinished = locked.st_size > 0;
	return 0;
}

/* The temporary name contains the backup's id, so it does not collide with other files, and
 * an existing file of that name belongs to the same backup. */
static int open_new(const char *path, const struct target_spec *spec, struct target *target,
		    struct cairn_err *err)
{
	int rc;

	target->path = cairn_strdup(path);
	target->partial = cairn_printf("%s.%.*s.partial", path, ID_SHOWN, spec->backup);
	if (!target->path || !target->partial)
		return cairn_err_nomem(err, "target");
	rc = open_partial(target, err);
	if (rc) {
		free(target->partial); /* another process may be writing it: do not delete it */
		target->partial = NULL;
		return rc;
	}
	if (ftruncate(target->fd, (off_t)spec->size) < 0)
		return cairn_err_sys(err, errno, "make '%s'", target->partial);
	target->fresh = !target->resumes;
	return 0;
}

int backup_target_open_path(const struct target_spec *spec, struct target *target,
			    struct cairn_err *err)
{
	struct stat st;

	if (stat(spec->to, &st) < 0) {
		if (errno != ENOENT)
			return cairn_err_sys(err, errno, "'%s'", spec->to);
		return open_new(spec->to, spec, target, err);
	}
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is neither a file nor a block device", spec->to);
	target->device = S_ISBLK(st.st_mode);
	return open_existing(spec, target, err);
}

/* The name itself must be durable too. */
static int target_file_sync_parent(const char *path, struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(path);
	cairn_auto_fd int fd = -1;

	if (!copy)
		return cairn_err_nomem(err, "target");
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync the directory of '%s'", path);
	return 0;
}

/* Renames without replacing an existing file, also on filesystems without RENAME_NOREPLACE. */
static int target_file_rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (link(from, to) == 0)
		return unlink(from);
	return errno == EEXIST ? -1 : rename(from, to);
}

int backup_target_publish(struct target *target, struct cairn_err *err)
{
	int rc = target_file_rename_new(target->partial, target->path);

	if (rc < 0 && errno == EEXIST)
		return cairn_err_set(err, CAIRN_EXISTS,
				     "'%s' was created by another process in the meantime",
				     target->path);
	if (rc < 0)
		return cairn_err_sys(err, errno, "rename '%s'", target->partial);
	free(target->partial);
	target->partial = NULL;
	return target_file_sync_parent(target->path, err);
}
