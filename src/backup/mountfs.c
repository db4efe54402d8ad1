/* SPDX-License-Identifier: Apache-2.0 */

#define FUSE_USE_VERSION 32

#include "backup/mountfs.h"

#include <errno.h>
#include <fuse3/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/backup_record.h"
#include "backup/image.h"
#include "backup/subject.h"
#include "backup/view.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "repo/repo.h"
#include "repo/repo_snapshot.h"

#define SHORT_ID     8U
#define OPEN_SECONDS 3600.0 /* for the kernel's caches: no file here ever changes */

struct entry {
	const struct repo_snapshot *snapshot;
	char id[SHORT_ID + 1];
	char *link;     /* "data@s1"; NULL if a newer backup has that name, or several volumes */
	bool shared;    /* while links are named: backups of another volume have it too */
	size_t subject; /* subject.h */
	char *text;     /* content of volume.json; NULL until it is needed */
	size_t text_n;
	uint64_t size; /* of volume.img, once `text` is set */
	struct view *view;
	unsigned users;
};

struct mountfs {
	const struct mountfs_spec *spec;
	struct repo_snapshot_list list;
	struct entry *entries;
	size_t n;
	pthread_mutex_t lock; /* guards views, users and texts of entries, and zeros */
	struct zeros *zeros;
};

static struct mountfs *mountfs_self(void)
{
	return fuse_get_context()->private_data;
}

/* The entry of "/0123abcd…", and what follows its name ("" or "/volume.img"). */
static struct entry *mountfs_find(const char *path, const char **ret_rest)
{
	struct mountfs *fs = mountfs_self();

	for (size_t i = 0; i < fs->n; i++) {
		if (strncmp(path + 1, fs->entries[i].id, SHORT_ID) == 0 &&
		    (path[1 + SHORT_ID] == '/' || path[1 + SHORT_ID] == '\0')) {
			*ret_rest = path + 1 + SHORT_ID;
			return &fs->entries[i];
		}
	}
	return NULL;
}

static const struct entry *find_link(const char *path)
{
	struct mountfs *fs = mountfs_self();

	for (size_t i = 0; i < fs->n; i++)
		if (fs->entries[i].link && strcmp(path + 1, fs->entries[i].link) == 0)
			return &fs->entries[i];
	return NULL;
}

static int errno_of(int code)
{
	switch (code) {
	case CAIRN_NO_SPACE:
		return -ENOMEM;
	case CAIRN_NOT_FOUND:
		return -ENOENT;
	default:
		return -EIO;
	}
}

/* Opens the image of an entry, or shares it if it is open. Called with the lock held. */
static int mountfs_use(struct mountfs *fs, struct entry *entry)
{
	cairn_cleanup(backup_image_done) struct image image = {0};
	struct cairn_err err = {0};
	int rc;

	if (entry->view) {
		entry->users++;
		return 0;
	}
	rc = backup_image_open(fs->spec->repo, entry->snapshot, NULL, fs->zeros, &image, &err);
	if (!rc && !entry->text) {
		entry->size = image.map.size;
		rc = backup_metadata_write(&image.metadata, &entry->text, &entry->text_n, &err);
	}
	if (!rc)
		rc = backup_view_new(fs->spec->repo, &image, &entry->view, &err);
	if (rc) {
		cairn_log(CAIRN_LOG_ERROR, "a backup cannot be opened", CAIRN_STR("id", entry->id),
			  CAIRN_STR("error", err.msg));
		return errno_of(rc);
	}
	entry->users++;
	return 0;
}

static void mountfs_unuse(struct entry *entry)
{
	if (--entry->users > 0)
		return;
	backup_view_free(entry->view);
	entry->view = NULL;
}

static void fill_stat(struct stat *st, const struct entry *entry, mode_t mode, uint64_t size)
{
	int64_t ns = entry ? entry->snapshot->time_ns : 0;

	*st = (struct stat){
		.st_mode = mode,
		.st_nlink = S_ISDIR(mode) ? 2 : 1,
		.st_size = (off_t)size,
		.st_blocks = (blkcnt_t)(size / 512),
		.st_uid = getuid(),
		.st_gid = getgid(),
		.st_mtim = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000},
	};
	st->st_atim = st->st_ctim = st->st_mtim;
}

/* Returns the length of volume.json or of the volume. */
static int length_of(struct entry *entry, bool image, uint64_t *ret)
{
	struct mountfs *fs = mountfs_self();
	int rc = 0;

	/* The summary contains the size, but restic's rewrites drop summaries that they do
	 * not know. */
	if (image && entry->snapshot->summary.given) {
		*ret = backup_record_of(entry->snapshot).size;
		return 0;
	}
	cairn_scoped_lock(&fs->lock);
	if (!entry->text) {
		rc = mountfs_use(fs, entry);
		if (!rc)
			mountfs_unuse(entry);
	}
	if (!rc)
		*ret = image ? entry->size : entry->text_n;
	return rc;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	const struct entry *link;
	struct entry *entry;
	const char *rest;
	uint64_t length = 0;
	bool image;
	int rc;

	(void)fi;
	if (strcmp(path, "/") == 0) {
		fill_stat(st, NULL, S_IFDIR | 0555, 0);
		return 0;
	}
	link = find_link(path);
	if (link) {
		fill_stat(st, link, S_IFLNK | 0777, SHORT_ID);
		return 0;
	}
	entry = mountfs_find(path, &rest);
	if (!entry)
		return -ENOENT;
	if (!*rest) {
		fill_stat(st, entry, S_IFDIR | 0555, 0);
		return 0;
	}
	image = strcmp(rest, "/" BACKUP_IMAGE_NAME) == 0;
	if (!image && strcmp(rest, "/" BACKUP_METADATA_NAME) != 0)
		return -ENOENT;
	rc = length_of(entry, image, &length);
	fill_stat(st, entry, S_IFREG | 0444, length);
	return rc;
}

static int fs_readlink(const char *path, char *buf, size_t n)
{
	const struct entry *link = find_link(path);

	if (!link)
		return -EINVAL;
	snprintf(buf, n, "%s", link->id);
	return 0;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	struct mountfs *fs = mountfs_self();
	const char *rest;

	(void)offset;
	(void)fi;
	(void)flags;
	fill(buf, ".", NULL, 0, 0);
	fill(buf, "..", NULL, 0, 0);
	if (strcmp(path, "/") != 0) {
		if (!mountfs_find(path, &rest) || *rest)
			return -ENOTDIR;
		fill(buf, BACKUP_IMAGE_NAME, NULL, 0, 0);
		fill(buf, BACKUP_METADATA_NAME, NULL, 0, 0);
		return 0;
	}
	for (size_t i = 0; i < fs->n; i++) {
		fill(buf, fs->entries[i].id, NULL, 0, 0);
		if (fs->entries[i].link)
			fill(buf, fs->entries[i].link, NULL, 0, 0);
	}
	return 0;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
	struct mountfs *fs = mountfs_self();
	const char *rest;
	struct entry *entry = mountfs_find(path, &rest);
	int rc;

	if (!entry)
		return -ENOENT;
	if ((fi->flags & O_ACCMODE) != O_RDONLY)
		return -EROFS;
	cairn_scoped_lock(&fs->lock);
	rc = mountfs_use(fs, entry);
	if (rc)
		return rc;
	fi->keep_cache = 1;
	fi->fh = (uint64_t)(entry - fs->entries);
	return 0;
}

static int fs_read(const char *path, char *buf, size_t n, off_t offset, struct fuse_file_info *fi)
{
	struct mountfs *fs = mountfs_self();
	struct entry *entry = &fs->entries[fi->fh];
	size_t name = strlen(path);
	struct cairn_err err = {0};
	size_t got = 0;
	int rc;

	if (name > 5 && strcmp(path + name - 5, ".json") == 0) {
		size_t length = entry->text_n;

		got = (size_t)offset < length ? length - (size_t)offset : 0;
		got = got < n ? got : n;
		memcpy(buf, entry->text + (got ? offset : 0), got);
		return (int)got;
	}
	rc = backup_view_read(entry->view, (uint64_t)offset, buf, n, &got, &err);
	if (rc) {
		cairn_log(CAIRN_LOG_ERROR, "a backup cannot be read", CAIRN_STR("id", entry->id),
			  CAIRN_STR("error", err.msg));
		return errno_of(rc);
	}
	return (int)got;
}

static int fs_release(const char *path, struct fuse_file_info *fi)
{
	struct mountfs *fs = mountfs_self();

	(void)path;
	cairn_scoped_lock(&fs->lock);
	mountfs_unuse(&fs->entries[fi->fh]);
	return 0;
}

static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	(void)conn;
	config->kernel_cache = 1;
	config->entry_timeout = OPEN_SECONDS;
	config->attr_timeout = OPEN_SECONDS;
	if (mountfs_self()->spec->ready)
		mountfs_self()->spec->ready(mountfs_self()->spec->arg);
	return mountfs_self();
}

static const struct fuse_operations operations = {
	.getattr = fs_getattr,
	.readlink = fs_readlink,
	.readdir = fs_readdir,
	.open = fs_open,
	.read = fs_read,
	.release = fs_release,
	.init = fs_init,
};

static char *link_of(const struct repo_snapshot *snapshot)
{
	struct backup_record record = backup_record_of(snapshot);
	char *link = cairn_printf("%s@%s", record.path + (*record.path == '/'), record.snapshot);

	for (char *p = link; p && *p; p++)
		if (*p == '/')
			*p = '_';
	return link;
}

/* Links the names of snapshots to their newest backups. */
static int name_links(struct mountfs *fs, struct cairn_err *err)
{
	for (size_t i = fs->n; i-- > 0;) {
		char *link = link_of(fs->entries[i].snapshot);

		if (!link)
			return cairn_err_nomem(err, "mount");
		for (size_t k = i + 1; k < fs->n && link; k++) {
			if (fs->entries[k].link && strcmp(fs->entries[k].link, link) == 0) {
				fs->entries[k].shared |=
					fs->entries[k].subject != fs->entries[i].subject;
				free(link);
				link = NULL;
			}
		}
		fs->entries[i].link = link;
	}
	/* A name that could mean a volume of another host or pool is not linked. */
	for (size_t i = 0; i < fs->n; i++)
		if (fs->entries[i].shared)
			free(cairn_take(fs->entries[i].link));
	return 0;
}

static int mountfs_collect(struct mountfs *fs, struct cairn_err *err)
{
	cairn_auto_free size_t *subjects = NULL;
	int rc = repo_snapshot_list(fs->spec->repo, &fs->list, err);

	if (!rc)
		rc = backup_subject_number(fs->list.items, fs->list.n, BACKUP_SUBJECT_TO_FIND,
					   &subjects, err);
	if (rc)
		return rc;
	fs->entries = cairn_calloc(fs->list.n + 1, sizeof(*fs->entries));
	if (!fs->entries)
		return cairn_err_nomem(err, "mount");
	for (size_t i = 0; i < fs->list.n; i++) {
		struct entry *entry = &fs->entries[fs->n];
		char id[REPO_ID_TEXT_MAX];

		if (!backup_record_of(fs->list.items[i]).ours)
			continue;
		entry->snapshot = fs->list.items[i];
		entry->subject = subjects[i];
		repo_id_format(&entry->snapshot->id, id);
		memcpy(entry->id, id, SHORT_ID);
		fs->n++;
	}
	return name_links(fs, err);
}

static void mountfs_done(struct mountfs *fs)
{
	for (size_t i = 0; i < fs->n; i++) {
		backup_view_free(fs->entries[i].view);
		free(fs->entries[i].link);
		free(fs->entries[i].text);
	}
	free(fs->entries);
	backup_zeros_freep(&fs->zeros);
	repo_snapshot_list_done(&fs->list);
}

static int mountfs_serve(struct mountfs *fs, struct cairn_err *err)
{
	char name[] = "cairn";
	char flag[] = "-o";
	char plain[] = "ro,fsname=cairn,subtype=cairn";
	char other[] = "ro,fsname=cairn,subtype=cairn,allow_other";
	char *argv[] = {name, flag, fs->spec->allow_other ? other : plain, NULL};
	cairn_cleanup(fuse_opt_free_args) struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	struct fuse_loop_config config = {.clone_fd = 0, .max_idle_threads = 4};
	struct fuse *fuse = fuse_new(&args, &operations, sizeof(operations), fs);
	int rc = 0;

	if (!fuse)
		return cairn_err_set(err, CAIRN_PRECONDITION, "FUSE cannot be set up");
	if (fuse_mount(fuse, fs->spec->dir) != 0) {
		fuse_destroy(fuse);
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' cannot be mounted on",
				     fs->spec->dir);
	}
	if (fuse_set_signal_handlers(fuse_get_session(fuse)) != 0)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "signals cannot be handled");
	if (!rc)
		(void)fuse_loop_mt(fuse, &config);
	fuse_remove_signal_handlers(fuse_get_session(fuse));
	fuse_unmount(fuse);
	fuse_destroy(fuse);
	return rc;
}

int backup_mountfs_run(const struct mountfs_spec *spec, struct cairn_err *err)
{
	cairn_cleanup(mountfs_done) struct mountfs fs = {.spec = spec,
							 .lock = PTHREAD_MUTEX_INITIALIZER};
	int rc = mountfs_collect(&fs, err);

	if (!rc)
		rc = backup_zeros_new(&fs.zeros, err);
	return rc ? rc : mountfs_serve(&fs, err);
}
