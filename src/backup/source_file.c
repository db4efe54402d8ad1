/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backup/change_list.h"
#include "backup/device_file.h"
#include "backup/source.h"
#include "backup/target_mark.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "block/extent.h"
#include "pool/device/mounts.h"

#define ID_BYTES  16
#define STAMP_MAX 32

/* Granularity of filesystems' timestamps. */
#define GRAIN_NS        (20 * CAIRN_NS_PER_MS)
#define GRAIN_COARSE_NS (2 * CAIRN_NS_PER_SEC)

struct file_source {
	struct backup_source base;
	struct backup_source_ops ops; /* without the functions that this source does not support */
	struct device_file file;
	struct stat before; /* attributes of a file when it was opened */
	bool live;
	/* Own the texts of `base`. */
	char *volume_id;
	char *volume_name;
	char *changes;
	char snapshot_id[2 * ID_BYTES + 1];
	char snapshot_name[STAMP_MAX];
};

static struct file_source *source_file_own(struct backup_source *source)
{
	return (struct file_source *)source;
}

static void file_close(struct backup_source *source)
{
	struct file_source *f = source_file_own(source);

	if (f->file.fd >= 0)
		close(f->file.fd);
	free(f->volume_id);
	free(f->volume_name);
	free(f->changes);
	free(f);
}

static int file_reader_open(struct backup_source *source, struct store_reader **ret,
			    struct cairn_err *err)
{
	return backup_device_file_reader(&source_file_own(source)->file, ret, err);
}

static int file_changed(struct backup_source *source, const char *base, struct block_sink sink,
			struct cairn_err *err)
{
	(void)base; /* the caller named it */
	return backup_change_list_read(source_file_own(source)->changes, source->size, &sink, err);
}

/* Marks the parts of a file that are not holes. */
static int file_allocated(struct backup_source *source, struct block_sink sink,
			  struct cairn_err *err)
{
	int fd = source_file_own(source)->file.fd;
	off_t at = 0;
	int rc = 0;

	while (!rc && (uint64_t)at < source->size) {
		off_t data = lseek(fd, at, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno == ENXIO)
			return 0;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return cairn_err_sys(err, errno, "look for holes");
		if ((uint64_t)hole > source->size)
			hole = (off_t)source->size;
		if (hole > data)
			rc = sink.emit(sink.arg,
				       &(struct block_extent){.offset = (uint64_t)data,
							      .length = (uint64_t)(hole - data)},
				       err);
		at = hole > at ? hole : at + 1;
	}
	return rc;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* A writer cannot set back the change time (ctime); it can set back the
 * modification time. */
static bool is_unwritten(const struct stat *before, const struct stat *now)
{
	return now->st_size == before->st_size && same_time(&now->st_mtim, &before->st_mtim) &&
	       same_time(&now->st_ctim, &before->st_ctim);
}

/* Fails if the file was written during the backup, which would then mix two states. */
static int file_settled(struct backup_source *source, struct cairn_err *err)
{
	struct file_source *f = source_file_own(source);
	struct stat now;

	if (f->live || f->file.block)
		return 0;
	if (fstat(f->file.fd, &now) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", source->volume_name);
	if (is_unwritten(&f->before, &now))
		return 0;
	return cairn_err_set(err, CAIRN_ABORTED,
			     "'%s' was written while it was read, so there is no backup of it; "
			     "--live makes one anyway",
			     source->volume_name);
}

static const struct backup_source_ops file_ops = {
	.name = "file",
	.close = file_close,
	.reader_open = file_reader_open,
	.changed = file_changed,
	.allocated = file_allocated,
	.settled = file_settled,
};

/* ---- opening ------------------------------------------------------------------ */

static int say_in_use(const char *path, struct cairn_err *err)
{
	cairn_auto_free char *mount = NULL;
	struct stat st;

	if (stat(path, &st) == 0)
		(void)pool_mounts_find_device(st.st_rdev, &mount, NULL);
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "'%s' is %s%s%s: back up a snapshot of it, or use --live: the "
			     "backup may then contain incomplete writes",
			     path, mount ? "mounted at '" : "in use", mount ? mount : "",
			     mount ? "'" : "");
}

/* Opens exclusively, unless it is in use and cannot be written by any
 * process. */
static int source_file_open_device(struct file_source *f, const struct source_file_spec *spec,
				   struct cairn_err *err)
{
	struct cairn_err why = {0};
	int read_only = 0;
	int rc = backup_device_file_open(spec->path, spec->live ? 0 : O_EXCL, &f->file, &why);

	if (rc && why.sys_errno == EBUSY && !spec->live) {
		rc = backup_device_file_open(spec->path, 0, &f->file, &why);
		if (!rc && ioctl(f->file.fd, BLKROGET, &read_only) == 0 && !read_only)
			return say_in_use(spec->path, err);
	}
	if (rc) {
		*err = why;
		return rc;
	}
	if (!f->file.block)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is not a block device: --file is for files", spec->path);
	return 0;
}

/* True if a process has the file open for writing, as far as the filesystem reports
 * it. */
static bool has_writers(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_RDLCK) == 0) {
		(void)fcntl(fd, F_SETLEASE, F_UNLCK);
		return false;
	}
	return errno == EAGAIN;
}

/* The time, in ns, until which a further write could leave the change time as it is now:
 * the kernel stamps in ticks of up to 10 ms, FAT and some servers in steps of 1 or 2 s. */
static uint64_t settles_at(const struct stat *st)
{
	uint64_t grain = st->st_ctim.tv_nsec == 0 ? GRAIN_COARSE_NS : GRAIN_NS;

	return (uint64_t)st->st_ctim.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)st->st_ctim.tv_nsec +
	       grain;
}

/* Records the file's times. Waits if the file was changed so recently that a further write
 * could leave its change time the same. */
static int remember_times(struct file_source *f, const char *path, struct cairn_err *err)
{
	for (int tries = 0; tries < 2; tries++) {
		uint64_t at, now;

		if (fstat(f->file.fd, &f->before) < 0)
			return cairn_err_sys(err, errno, "stat '%s'", path);
		at = settles_at(&f->before);
		now = cairn_now_ns();
		/* A time in the future comes from another clock: waiting does not help. */
		if (now >= at || at - now > GRAIN_COARSE_NS)
			break;
		cairn_sleep_ms((at - now) / CAIRN_NS_PER_MS + 1);
	}
	return 0;
}

static int source_file_open_file(struct file_source *f, const struct source_file_spec *spec,
				 struct cairn_err *err)
{
	int rc = backup_device_file_open(spec->path, 0, &f->file, err);

	if (rc)
		return rc;
	if (f->file.block)
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' is a block device: --device is for those", spec->path);
	if (!spec->live && has_writers(f->file.fd))
		return cairn_err_set(
			err, CAIRN_PRECONDITION,
			"'%s' is open for writing elsewhere: stop what writes it, or use "
			"--live: the backup may then contain incomplete writes",
			spec->path);
	return spec->live ? 0 : remember_times(f, spec->path, err);
}

/* An unfinished restore leaves a mixture of old and restored data. */
static int check_whole(const struct file_source *f, const char *path, struct cairn_err *err)
{
	char backup[POOL_RESTORING_MAX + 1];
	int rc = backup_target_mark_read(f->file.fd, backup, err);

	if (rc || !*backup)
		return rc;
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "'%s' holds an unfinished restore of backup %s: finish that, or "
			     "repeat it, before this is backed up",
			     path, backup);
}

/* Makes the path absolute without resolving its last component: /dev/vg/lv keeps its name,
 * whatever it points to. */
static char *source_file_absolute(const char *path)
{
	const char *slash = strrchr(path, '/');
	cairn_auto_free char *dir =
		slash ? cairn_strndup(path, (size_t)(slash - path) + 1) : cairn_strdup(".");
	char real[PATH_MAX];

	if (!dir || !realpath(dir, real))
		return NULL;
	return cairn_printf("%s/%s", strcmp(real, "/") == 0 ? "" : real, slash ? slash + 1 : path);
}

static int source_file_name_it(struct file_source *f, const struct source_file_spec *spec,
			       struct cairn_err *err)
{
	time_t now = (time_t)(cairn_now_ns() / CAIRN_NS_PER_SEC);
	char host[HOST_NAME_MAX + 1] = "";
	struct tm tm;

	if (gethostname(host, sizeof(host) - 1) < 0)
		return cairn_err_sys(err, errno, "name of this host");
	f->volume_name = spec->name ? cairn_strdup(spec->name) : source_file_absolute(spec->path);
	if (f->volume_name)
		f->volume_id =
			cairn_printf("%s:%s", spec->host ? spec->host : host, f->volume_name);
	f->changes = spec->changes ? cairn_strdup(spec->changes) : NULL;
	if (!f->volume_id || (spec->changes && !f->changes))
		return cairn_err_nomem(err, "source");
	strftime(f->snapshot_name, sizeof(f->snapshot_name), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	f->base.volume_id = f->volume_id;
	f->base.volume_name = f->volume_name;
	f->base.snapshot_id = f->snapshot_id;
	f->base.snapshot_name = f->snapshot_name;
	f->base.created_ns = cairn_now_ns();
	return cairn_random_hex(f->snapshot_id, ID_BYTES, err);
}

static int source_file_pass_over(void *arg, const struct block_extent *extent,
				 struct cairn_err *err)
{
	(void)arg;
	(void)extent;
	(void)err;
	return 0;
}

/* An unreadable list is an error of the caller. Do not hide it by reading the whole file. */
static int check_changes(const struct source_file_spec *spec, uint64_t size, struct cairn_err *err)
{
	struct block_sink sink = {.emit = source_file_pass_over};

	return spec->changes ? backup_change_list_read(spec->changes, size, &sink, err) : 0;
}

int backup_source_file(const struct source_file_spec *spec, struct backup_source **ret,
		       struct cairn_err *err)
{
	struct file_source *f = cairn_calloc(1, sizeof(*f));
	cairn_cleanup(backup_source_closep) struct backup_source *source = NULL;
	struct cairn_err own_err = {0};
	int rc;

	if (!f)
		return cairn_err_nomem(err, "source");
	err = err ? err : &own_err;
	f->ops = file_ops;
	f->file.fd = -1;
	f->live = spec->live;
	source = &f->base;
	source->ops = &f->ops;
	rc = spec->device ? source_file_open_device(f, spec, err)
			  : source_file_open_file(f, spec, err);
	if (!rc && f->file.size == 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "'%s' is empty", spec->path);
	if (!rc)
		rc = check_whole(f, spec->path, err);
	if (!rc)
		rc = check_changes(spec, f->file.size, err);
	if (!rc)
		rc = source_file_name_it(f, spec, err);
	if (rc)
		return rc;
	source->size = f->file.size;
	if (!spec->changes)
		f->ops.changed = NULL;
	if (f->file.block)
		f->ops.allocated = NULL;
	*ret = cairn_take(source);
	return 0;
}
