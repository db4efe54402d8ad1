/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/target.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/target_impl.h"
#include "backup/target_mark.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "pool/pool.h"

/* Shorter pieces go through the page cache, which combines them into fewer requests. */
#define DIRECT_MIN (128U << 10)

void backup_target_done(struct target *target)
{
	if (target->partial)
		unlink(target->partial); /* before its lock is released */
	cairn_closep(&target->fd);
	cairn_closep(&target->direct_fd);
	cairn_closep(&target->lock);
	/* Delete the volume before releasing the file's lock: a restore that waits for the
	 * lock would otherwise continue this volume, finish it, and then lose it. */
	if (target->made)
		(void)pool_volume_delete(target->pool, target->volume, POOL_DELETE_REFUSE, NULL);
	cairn_closep(&target->file_lock);
	target->fd = target->direct_fd = target->file_lock = target->lock = -1;
	target->made = false;
	free(target->partial);
	free(target->path);
	free(target->head);
	target->partial = target->path = NULL;
	target->head = NULL;
	target->head_bytes = 0;
}

bool backup_target_leave(struct target *target)
{
	bool left = target->partial || target->head || *target->volume;

	free(target->partial);
	target->partial = NULL;
	target->made = false;
	return left;
}

static int open_locked(const struct target_spec *spec, struct target *target, struct cairn_err *err)
{
	int rc = pool_volume_lock_file(spec->pool, target->volume, &target->file_lock, err);

	if (!rc)
		rc = pool_volume_open_data(spec->pool, target->volume, &target->fd, err);
	return rc ? cairn_err_wrap(err, "open volume '%s'", spec->to) : 0;
}

/* Restoring one volume over another is almost always a mistake in the name. */
static int check_same_volume(const struct target_spec *spec, const struct pool_volume *volume,
			     struct cairn_err *err)
{
	char has[CAIRN_SIZE_TEXT_MAX];
	char had[CAIRN_SIZE_TEXT_MAX];

	if (spec->other_volume)
		return 0;
	if (!spec->volume_id || strcmp(spec->volume_id, volume->id) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the backup is of volume '%s' (%s), and '%s' is another one "
				     "(%s); --onto-other-volume restores over it all the same",
				     spec->volume_name ? spec->volume_name : "unknown",
				     spec->volume_id ? spec->volume_id : "no id", volume->name,
				     volume->id);
	if (volume->size == spec->size)
		return 0;
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "volume '%s' has %s, in the backup it had %s; --onto-other-volume "
			     "restores over it and fills the rest with zeroes",
			     volume->name, cairn_format_size(volume->size, has),
			     cairn_format_size(spec->size, had));
}

/* Whether the restore may write over the volume as it is now. */
static int check_old_volume(const struct target_spec *spec, const struct pool_volume *volume,
			    struct target *target, struct cairn_err *err)
{
	target->unfinished = volume->restoring[0] != '\0';
	target->resumes = target->unfinished && strcmp(volume->restoring, spec->backup) == 0;
	if (target->resumes)
		return 0;
	if (!spec->overwrite)
		return cairn_err_set(err, CAIRN_EXISTS,
				     "there is a volume '%s'; --overwrite restores over it",
				     spec->to);
	return check_same_volume(spec, volume, err);
}

/* Checked again with the lock: another restore may have finished meanwhile, and the
 * volume may have been used since. */
static int open_old_volume(const struct target_spec *spec, struct pool_volume *volume,
			   struct target *target, struct cairn_err *err)
{
	struct pool_volume grown;
	int rc = check_old_volume(spec, volume, target, err);

	if (rc)
		return rc;
	memcpy(target->volume, volume->id, sizeof(target->volume));
	rc = open_locked(spec, target, err);
	if (!rc)
		rc = pool_volume_get(spec->pool, target->volume, volume, err);
	if (!rc)
		rc = check_old_volume(spec, volume, target, err);
	if (rc)
		return rc;
	target->size = spec->size;
	target->was = target->end = volume->size;
	return volume->size < spec->size
		       ? pool_volume_expand(spec->pool, volume->id, spec->size, &grown, err)
		       : 0;
}

static int open_new_volume(const struct target_spec *spec, struct target *target,
			   struct cairn_err *err)
{
	struct pool_volume_spec make = {
		.name = spec->to, .size = spec->size, .restoring = spec->backup};
	struct pool_volume volume;
	int rc = pool_volume_create(spec->pool, &make, &volume, err);

	if (rc)
		return rc;
	memcpy(target->volume, volume.id, sizeof(target->volume));
	target->made = target->fresh = true;
	return open_locked(spec, target, err);
}

static int open_volume(const struct target_spec *spec, struct target *target, struct cairn_err *err)
{
	struct pool_volume volume;
	int rc = pool_volume_get(spec->pool, spec->to, &volume, err);

	target->pool = spec->pool;
	if (rc == CAIRN_NOT_FOUND)
		return open_new_volume(spec, target, err);
	return rc ? rc : open_old_volume(spec, &volume, target, err);
}

/* Not every filesystem supports direct I/O; it is only faster. */
static void open_direct(struct target *target)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", target->fd);
	target->direct_fd = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
}

int backup_target_open(const struct target_spec *spec, struct target *ret, struct cairn_err *err)
{
	cairn_cleanup(backup_target_done) struct target target = TARGET_NONE;
	int rc;

	snprintf(target.backup, sizeof(target.backup), "%s", spec->backup);
	if (strchr(spec->to, '/'))
		rc = backup_target_open_path(spec, &target, err);
	else if (spec->pool)
		rc = open_volume(spec, &target, err);
	else
		rc = cairn_err_set(err, CAIRN_INVALID,
				   "'%s' would be a volume, and there is no pool; a file is "
				   "written with its directory: ./%s",
				   spec->to, spec->to);
	if (rc)
		return rc;
	open_direct(&target);
	*ret = target;
	target = (struct target)TARGET_NONE;
	return 0;
}

int backup_target_can_hold(const struct target *target, uint64_t size, struct cairn_err *err)
{
	bool longer = target->device || target->pool;

	if (target->was == size || (longer && target->was > size))
		return 0;
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "what is restored to has %" PRIu64 " bytes and the backup that it "
			     "is said to hold %" PRIu64 ", so it does not hold that",
			     target->was, size);
}

/* Marks the target as unfinished before anything is written, because from here on its data
 * is a mixture. */
static int hold_file(struct target *target, struct cairn_err *err)
{
	int rc = target->marks ? backup_target_mark_write(target, err) : 0;

	if (!rc && target->marks && !target->device &&
	    ftruncate(target->fd, (off_t)target->size) < 0)
		rc = cairn_err_sys(err, errno, "set the size of what is restored to");
	return rc;
}

/* A rollback in progress when the volume was opened may have replaced its data since. While
 * the lock is held no rollback begins. */
static int hold_volume(struct target *target, struct cairn_err *err)
{
	int rc = pool_volume_lock(target->pool, target->volume, &target->lock, err);

	return rc ? rc : pool_volume_check_data(target->pool, target->volume, target->fd, err);
}

int backup_target_hold(struct target *target, struct cairn_err *err)
{
	int rc = *target->volume ? hold_volume(target, err) : hold_file(target, err);

	if (!rc && *target->volume && !target->made)
		rc = pool_volume_set_restoring(target->pool, target->volume, target->backup, err);
	/* Clear old data after the image's end. */
	if (!rc && target->end > target->size)
		rc = backup_target_zero(target, target->size, target->end - target->size, err);
	return rc;
}

static int write_zeros(int fd, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	static const uint8_t zeros[1 << 16];

	while (length > 0) {
		size_t part = length < sizeof(zeros) ? (size_t)length : sizeof(zeros);

		if (cairn_pwrite_full(fd, zeros, part, offset) < 0)
			return cairn_err_sys(err, errno, "write at %" PRIu64, offset);
		offset += part;
		length -= part;
	}
	return 0;
}

int backup_target_zero(const struct target *target, uint64_t offset, uint64_t n,
		       struct cairn_err *err)
{
	size_t kept = backup_target_mark_take(target, NULL, n, offset);

	offset += kept;
	n -= kept;
	if (n == 0 || target->fresh ||
	    fallocate(target->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)n) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
		return cairn_err_sys(err, errno, "punch a hole at %" PRIu64, offset);
	return write_zeros(target->fd, offset, n, err);
}

int backup_target_write(const struct target *target, const void *data, size_t n, uint64_t offset,
			struct cairn_err *err)
{
	size_t kept = backup_target_mark_take(target, data, n, offset);

	data = (const uint8_t *)data + kept;
	offset += kept;
	n -= kept;
	if (n == 0)
		return 0;
	if (target->direct_fd >= 0 && n >= DIRECT_MIN &&
	    ((uintptr_t)data | n | offset) % TARGET_ALIGN == 0) {
		if (cairn_pwrite_full(target->direct_fd, data, n, offset) == 0)
			return 0;
		/* The disk has larger blocks than TARGET_ALIGN: write through the page cache. */
		if (errno != EINVAL)
			return cairn_err_sys(err, errno, "write at %" PRIu64, offset);
	}
	if (cairn_pwrite_full(target->fd, data, n, offset) < 0)
		return cairn_err_sys(err, errno, "write at %" PRIu64, offset);
	/* Start writing back now, so that the final sync has less to wait for. */
	(void)sync_file_range(target->fd, (off_t)offset, (off_t)n, SYNC_FILE_RANGE_WRITE);
	return 0;
}

int backup_target_drop_cache(const struct target *target, struct cairn_err *err)
{
	if (fsync(target->fd) < 0)
		return cairn_err_sys(err, errno, "sync what was restored");
	(void)posix_fadvise(target->fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

int backup_target_finish(struct target *target, struct cairn_err *err)
{
	if (fsync(target->fd) < 0)
		return cairn_err_sys(err, errno, "sync what was restored");
	if (target->partial)
		return backup_target_publish(target, err);
	if (*target->volume) {
		int rc = pool_volume_set_restoring(target->pool, target->volume, NULL, err);

		if (rc)
			return rc;
	}
	target->made = false;
	return 0;
}
