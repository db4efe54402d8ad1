/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_disk_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "pool/catalogue/catalogue_shm.h"

/* Data of this VFS for an open main file, stored after that of the "unix"
 * VFS. */
struct vfs_file {
	const sqlite3_io_methods *parent;
	sqlite3_io_methods methods; /* the parent's, except for those of shared memory */
	struct shm *shm;            /* NULL before the first use */
	const char *path;           /* of the main file; SQLite's, lives as long as the file */
	bool writable;
};

static sqlite3_vfs *parent_vfs;
static sqlite3_vfs our_vfs;

static size_t state_offset(void)
{
	size_t align = _Alignof(max_align_t);

	return ((size_t)parent_vfs->szOsFile + align - 1) / align * align;
}

static struct vfs_file *catalogue_disk_vfs_state_of(sqlite3_file *file)
{
	return (struct vfs_file *)(void *)((char *)file + state_offset());
}

static int vfs_shm_map(sqlite3_file *file, int region, int size, int extend,
		       void volatile **ret_memory)
{
	struct vfs_file *state = catalogue_disk_vfs_state_of(file);
	int rc = SQLITE_OK;

	if (!state->shm)
		rc = pool_shm_open_for(state->path, state->writable, &state->shm);
	return rc != SQLITE_OK ? rc
			       : pool_shm_map(state->shm, (size_t)region, (size_t)size, extend != 0,
					      ret_memory);
}

/* Only checkpoints write to the main file. When the index is removed during one, another
 * process may make another index and run a checkpoint too, and this one's pages are older. */
static int vfs_write(sqlite3_file *file, const void *buf, int n, sqlite3_int64 offset)
{
	struct vfs_file *state = catalogue_disk_vfs_state_of(file);

	if (state->shm && !pool_shm_is_linked(state->shm))
		return SQLITE_IOERR_WRITE;
	return state->parent->xWrite(file, buf, n, offset);
}

static int vfs_shm_lock(sqlite3_file *file, int slot, int n, int flags)
{
	return pool_shm_lock(catalogue_disk_vfs_state_of(file)->shm, (unsigned)slot, (unsigned)n,
			     flags);
}

static void vfs_shm_barrier(sqlite3_file *file)
{
	(void)file;
	__sync_synchronize();
}

/* The file is kept even when it is no longer needed, so that it keeps its
 * blocks. */
static int vfs_shm_unmap(sqlite3_file *file, int delete)
{
	struct vfs_file *state = catalogue_disk_vfs_state_of(file);

	(void)delete;
	pool_shm_close(state->shm);
	state->shm = NULL;
	return SQLITE_OK;
}

static int vfs_close(sqlite3_file *file)
{
	struct vfs_file *state = catalogue_disk_vfs_state_of(file);

	pool_shm_close(state->shm);
	state->shm = NULL;
	file->pMethods = state->parent;
	return state->parent->xClose(file);
}

/* SQLite has no lock on the log, so it may be opened and closed independently. Other
 * failures are ignored, because SQLite will report them; but a log that it cannot create
 * for lack of space it opens for reading next, and reports that the file is missing. */
static int allocate_log(const char *path)
{
	cairn_auto_fd int fd = -1;
	struct stat st;

	if (lstat(path, &st) == 0 && (uint64_t)st.st_blocks * 512 >= CATALOGUE_LOG_RESERVE)
		return SQLITE_OK;
	if (pool_shm_open_beside(path, strlen(path) - strlen("-wal"), &fd) < 0)
		return errno == ENOSPC || errno == EDQUOT ? SQLITE_FULL : SQLITE_OK;
	(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, CATALOGUE_LOG_RESERVE);
	return SQLITE_OK;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
		    int *ret_flags)
{
	struct vfs_file *state = catalogue_disk_vfs_state_of(file);
	int rc = SQLITE_OK;

	(void)vfs;
	memset(state, 0, sizeof(*state));
	file->pMethods = NULL;
	if ((flags & SQLITE_OPEN_WAL) && (flags & SQLITE_OPEN_READWRITE) && name)
		rc = allocate_log(name);
	if (rc == SQLITE_OK)
		rc = parent_vfs->xOpen(parent_vfs, name, file, flags, ret_flags);
	if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_MAIN_DB) || !file->pMethods)
		return rc;
	state->path = name;
	state->writable = (flags & SQLITE_OPEN_READWRITE) != 0;
	state->parent = file->pMethods;
	state->methods = *state->parent;
	state->methods.xClose = vfs_close;
	state->methods.xWrite = vfs_write;
	state->methods.xShmMap = vfs_shm_map;
	state->methods.xShmLock = vfs_shm_lock;
	state->methods.xShmBarrier = vfs_shm_barrier;
	state->methods.xShmUnmap = vfs_shm_unmap;
	file->pMethods = &state->methods;
	return SQLITE_OK;
}

/* True if no component of `path` is a symbolic link. The path must not contain "."
 * or ".." or two slashes in a row, like a result of realpath(). False also if
 * unknown. */
static bool has_no_link(const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	cairn_auto_fd int fd = -1;

	if (path[0] != '/' || strstr(path, "//") || strstr(path, "/."))
		return false;
	fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	return fd >= 0;
}

/* Avoids the check of each path component for links by the "unix" VFS. */
static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int n, char *ret)
{
	size_t len = strlen(name);

	(void)vfs;
	if (len >= (size_t)n || !has_no_link(name))
		return parent_vfs->xFullPathname(parent_vfs, name, n, ret);
	memcpy(ret, name, len + 1);
	return SQLITE_OK;
}

/* NULL for a connection of another VFS. */
static const struct shm *shm_of(sqlite3 *db)
{
	sqlite3_file *file = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
	    !file || !file->pMethods || file->pMethods->xShmMap != vfs_shm_map)
		return NULL;
	return catalogue_disk_vfs_state_of(file)->shm;
}

int pool_catalogue_disk_vfs_hold(sqlite3 *db)
{
	return pool_shm_hold(shm_of(db));
}

bool pool_catalogue_disk_vfs_log_end(sqlite3 *db, uint8_t *ret_salt, uint64_t *ret_end)
{
	return pool_shm_log_end(shm_of(db), ret_salt, ret_end);
}

bool pool_catalogue_disk_vfs_is_linked(sqlite3 *db)
{
	const struct shm *shm = shm_of(db);

	return !shm || pool_shm_is_linked(shm);
}

bool pool_catalogue_disk_vfs_is_current(sqlite3 *db)
{
	const struct shm *shm = shm_of(db);

	return !shm || pool_shm_is_current(shm);
}

/* SQLite pads a short read with zeros and does not report its length. */
int pool_catalogue_file_read(sqlite3_file *file, void *buf, size_t n, uint64_t offset,
			     size_t *ret_n)
{
	sqlite3_int64 size = 0;
	int rc = file->pMethods->xFileSize(file, &size);

	if (rc == SQLITE_OK && offset >= (uint64_t)size)
		n = 0;
	else if (rc == SQLITE_OK && n > (uint64_t)size - offset)
		n = (size_t)((uint64_t)size - offset);
	if (rc == SQLITE_OK && n > 0)
		rc = file->pMethods->xRead(file, buf, (int)n, (sqlite3_int64)offset);
	if (rc != SQLITE_OK) {
		errno = EIO;
		return -1;
	}
	*ret_n = n;
	return 0;
}

int pool_catalogue_disk_vfs_read(sqlite3 *db, void *buf, size_t n, uint64_t offset, size_t *ret_n)
{
	sqlite3_file *file = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
	    !file || !file->pMethods) {
		errno = EIO;
		return -1;
	}
	return pool_catalogue_file_read(file, buf, n, offset, ret_n);
}

static int register_result = SQLITE_ERROR;

static void register_once(void)
{
	parent_vfs = sqlite3_vfs_find("unix");
	if (!parent_vfs)
		return;
	our_vfs = *parent_vfs;
	our_vfs.pNext = NULL;
	our_vfs.zName = CATALOGUE_DISK_VFS;
	our_vfs.szOsFile = (int)(state_offset() + sizeof(struct vfs_file));
	our_vfs.xOpen = vfs_open;
	our_vfs.xFullPathname = vfs_full_path;
	register_result = sqlite3_vfs_register(&our_vfs, 0);
}

int pool_catalogue_disk_vfs_register(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_once);
	return register_result;
}
