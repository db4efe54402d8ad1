/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_log.h"
#include "pool/catalogue/catalogue_mark.h"
#include "pool/catalogue/catalogue_shm.h"

#define LOG_ENDING   "-wal"
#define TRUST_ENDING "-trust"

/* How long a checkpoint waits for another process's commit to be synced. */
#define COMMIT_WAIT_TURNS 10U
#define COMMIT_WAIT_MS    2U

enum trust_byte {
	TRUST_COMMIT,     /* changed by the holder of SQLite's write lock */
	TRUST_CHECKPOINT, /* changed by the holder of SQLite's checkpoint lock */
	TRUST_BYTES,
};

#define TRUST_GIVEN 'y'
#define TRUST_TAKEN 'n'

#define TRUST_FILE_SIZE 4096U
#define MAIN_PAGE_SIZE  4096U

struct log_file {
	sqlite3_file base;
	char *path, *trust_path, *main_path;
	bool is_dirty;                 /* written to since the last sync of a commit */
	struct catalogue_mark mark;    /* start and salt of what was written since */
	int64_t end;                   /* end of the page that was written last */
	bool in_transaction;           /* its last frame is not written yet */
	sqlite3_file *main;            /* SQLite's, or NULL */
	struct catalogue_page page;    /* of the last transaction; number 0 inside one */
	struct catalogue_page noted;   /* the same with its checksums */
	int64_t page_offset;           /* where it comes in the log */
	int trust_fd;                  /* -1 when the file is not open; see trust_fd() */
	bool is_new;                   /* its name may not be on disk yet */
	bool is_read_back;             /* all of it was rewritten by this connection */
	_Alignas(int64_t) char real[]; /* SQLite aligns no file better than this */
};

static pthread_once_t registered = PTHREAD_ONCE_INIT;
static sqlite3_vfs own_vfs, *real_vfs;
static bool is_registered;
static _Thread_local bool in_checkpoint, is_alone;

static sqlite3_file *catalogue_vfs_real_of(sqlite3_file *file)
{
	return (sqlite3_file *)((struct log_file *)file)->real;
}

/* ---- trust ------------------------------------------------------------------ */

/* Another process may have removed and recreated the file. -1 when it is missing. */
static int trust_fd(struct log_file *log)
{
	struct stat st;

	if (log->trust_fd >= 0 && (fstat(log->trust_fd, &st) < 0 || st.st_nlink == 0))
		cairn_closep(&log->trust_fd);
	if (log->trust_fd < 0)
		log->trust_fd = open(log->trust_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return log->trust_fd;
}

static bool is_trusted(int fd)
{
	char bytes[TRUST_BYTES];

	return fd >= 0 && cairn_pread_full(fd, bytes, TRUST_BYTES, 0) == TRUST_BYTES &&
	       bytes[TRUST_COMMIT] == TRUST_GIVEN && bytes[TRUST_CHECKPOINT] == TRUST_GIVEN;
}

static bool catalogue_vfs_set_trust(int fd, enum trust_byte which, char value)
{
	return cairn_pwrite_full(fd, &value, 1, (uint64_t)which) == 0;
}

/* The last resort, removing the file, works on a full disk too: without it the
 * log is not trusted. */
static void take_trust_back(const struct log_file *log, int fd, enum trust_byte which)
{
	if (!catalogue_vfs_set_trust(fd, which, TRUST_TAKEN))
		unlink(log->trust_path);
}

/* After a sync of a commit, or of the header alone, which contains no
 * commit. */
static void leave_mark(struct log_file *log, int fd)
{
	if (!log->is_dirty || log->end <= CATALOGUE_LOG_HEADER)
		return;
	log->mark.end = (uint64_t)log->end;
	pool_catalogue_mark_write(fd, log->main_path, &log->mark);
	pool_catalogue_page_write(fd, &log->noted);
	log->is_dirty = false;
}

/* Writes a whole block, so that a copy-on-write filesystem does not store it inline
 * and it can be written in place. If this fails, the next commit rewrites the log. */
static void give_trust(struct log_file *log)
{
	static const char block[TRUST_FILE_SIZE] = {TRUST_GIVEN, TRUST_GIVEN};
	cairn_auto_fd int fd = -1;
	struct stat st;
	size_t n = TRUST_BYTES;

	if (pool_shm_open_beside(log->trust_path, strlen(log->trust_path) - strlen(TRUST_ENDING),
				 &fd) < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size < (off_t)sizeof(block))
		n = sizeof(block);
	if (cairn_pwrite_full(fd, block, n, 0) != 0)
		return;
	leave_mark(log, fd);
}

/* ---- syncs ------------------------------------------------------------------- */

static int sync_directory(const struct log_file *log)
{
	cairn_auto_free char *dir =
		cairn_strndup(log->path, (size_t)(strrchr(log->path, '/') - log->path) + 1);
	cairn_auto_fd int fd = -1;

	if (!dir)
		return SQLITE_IOERR_NOMEM;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && fsync(fd) == 0 ? SQLITE_OK : SQLITE_IOERR_DIR_FSYNC;
}

static int sync_all(struct log_file *log, int flags)
{
	sqlite3_file *real = catalogue_vfs_real_of(&log->base);
	int rc = real->pMethods->xSync(real, flags);

	if (rc == SQLITE_OK && log->is_new)
		rc = sync_directory(log);
	if (rc == SQLITE_OK)
		log->is_new = false;
	return rc;
}

static int sync_trusted(struct log_file *log, int fd, int flags)
{
	enum trust_byte which = in_checkpoint ? TRUST_CHECKPOINT : TRUST_COMMIT;
	bool taken = catalogue_vfs_set_trust(fd, which, TRUST_TAKEN);
	int rc = sync_all(log, flags);
	int saved = errno;

	if (rc != SQLITE_OK)
		take_trust_back(log, fd, which);
	else if (taken)
		(void)catalogue_vfs_set_trust(fd, which, TRUST_GIVEN);
	if (rc == SQLITE_OK && which == TRUST_COMMIT)
		leave_mark(log, fd);
	errno = saved;
	return rc;
}

/* Rewrites the log up to the end of the commit, which makes it dirty, syncs it,
 * and reads it back from the disk. The commit holds SQLite's write lock, so the
 * log does not change meanwhile. */
static int sync_again(struct log_file *log, int flags)
{
	cairn_auto_fd int fd = open(log->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	int64_t written = 0, read = 0;
	int rc;

	log->is_read_back = false;
	if (fd < 0 || pool_catalogue_log_walk(fd, true, &written) < 0)
		return SQLITE_IOERR_FSYNC;
	if (written < log->end) {
		errno = EIO; /* a part of it was dropped from the page cache, too */
		return SQLITE_IOERR_FSYNC;
	}
	log->is_new = true;
	rc = sync_all(log, flags);
	if (rc != SQLITE_OK)
		return rc;
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (pool_catalogue_log_walk(fd, false, &read) < 0)
		return SQLITE_IOERR_FSYNC;
	if (read != written) {
		errno = EIO;
		return SQLITE_IOERR_FSYNC;
	}
	log->is_read_back = true;
	give_trust(log);
	return SQLITE_OK;
}

static int log_sync(sqlite3_file *file, int flags)
{
	struct log_file *log = (struct log_file *)file;
	int fd = trust_fd(log);

	for (unsigned turn = 0; in_checkpoint && !is_alone && fd >= 0 && turn < COMMIT_WAIT_TURNS;
	     turn++) {
		if (is_trusted(fd))
			break;
		cairn_sleep_ms(COMMIT_WAIT_MS);
	}
	if (is_trusted(fd))
		return sync_trusted(log, fd, flags);
	if (!in_checkpoint)
		return sync_again(log, flags);
	/* Without space for the file. No other process can have failed to sync since. */
	if (is_alone && log->is_read_back) {
		log->is_read_back = false;
		return sync_all(log, flags);
	}
	errno = EIO;
	return SQLITE_IOERR_FSYNC;
}

/* ---- the other calls ----------------------------------------------------------- */

static int log_close(sqlite3_file *file)
{
	struct log_file *log = (struct log_file *)file;
	sqlite3_file *real = catalogue_vfs_real_of(file);

	free(log->path);
	free(log->trust_path);
	free(log->main_path);
	cairn_closep(&log->trust_fd);
	return real->pMethods->xClose(real);
}

static int log_read(sqlite3_file *file, void *buf, int n, sqlite3_int64 offset)
{
	sqlite3_file *real = catalogue_vfs_real_of(file);

	return real->pMethods->xRead(real, buf, n, offset);
}

/* The write lock is held from the first frame of a transaction to its last, so only
 * the first can find a mark beyond its offset. A transaction that was rolled back
 * leaves a gap, or its frames are overwritten. */
static void lower_mark(struct log_file *log, const uint8_t *header, int64_t offset)
{
	if (!log->in_transaction || offset != log->end)
		pool_catalogue_mark_lower(trust_fd(log), log->main_path, header + 8,
					  (uint64_t)offset);
}

/* The last page of a transaction, before it is written. */
static void note_page(struct log_file *log, const void *bytes, size_t size)
{
	uint8_t before[MAIN_PAGE_SIZE];
	size_t n = 0;

	log->noted = log->page;
	if (!log->main || size > sizeof(before) ||
	    pool_catalogue_file_read(log->main, before, size,
				     (log->page.number - 1) * (uint64_t)size, &n) < 0)
		log->noted.number = 0;
	log->noted.size = (uint32_t)size;
	log->noted.before = block_checksum(before, n);
	log->noted.after = block_checksum(bytes, size);
}

/* After it was written. The first sync in a log writes the page itself. */
static void keep_page(struct log_file *log)
{
	int fd = trust_fd(log);

	if (fd >= 0 && pool_catalogue_mark_is_of(fd, log->mark.salt))
		pool_catalogue_page_write(fd, &log->noted);
}

/* Frame headers are also rewritten in place; pages are written in order. */
static void note_written(struct log_file *log, const uint8_t *bytes, int n, int64_t offset)
{
	struct catalogue_mark *mark = &log->mark;

	if (n == CATALOGUE_LOG_HEADER && offset == 0) {
		memcpy(mark->salt, bytes + CATALOGUE_LOG_SALT_OFFSET, sizeof(mark->salt));
	} else if (n == CATALOGUE_LOG_FRAME) {
		memcpy(mark->salt, bytes + 8, sizeof(mark->salt));
		log->page = (struct catalogue_page){.number = pool_catalogue_log_last_page(bytes)};
		log->page_offset = offset + n;
		log->in_transaction = log->page.number == 0;
	}
	if (!log->is_dirty || (uint64_t)offset < mark->start)
		mark->start = (uint64_t)offset;
	log->is_dirty = true;
	if (n != CATALOGUE_LOG_FRAME)
		log->end = offset + n;
}

/* Before the header of a restarted log. All commits of the old log are in the main file then, so
 * a page that would prove a loss is that of a transaction that was not committed: its process was
 * killed, or its sync failed. */
static void drop_stale_page(struct log_file *log, const uint8_t *header)
{
	static const struct catalogue_page none;
	struct catalogue_page page = pool_catalogue_page_read(log->main_path);
	uint8_t now[MAIN_PAGE_SIZE];
	int fd = trust_fd(log);
	size_t n = 0;

	if (fd < 0 || !page.number || page.before == page.after || !log->main ||
	    page.size > sizeof(now) ||
	    pool_catalogue_file_read(log->main, now, page.size,
				     (page.number - 1) * (uint64_t)page.size, &n) < 0 ||
	    block_checksum(now, n) != page.before ||
	    !pool_catalogue_mark_precedes(fd, header + CATALOGUE_LOG_SALT_OFFSET))
		return;
	pool_catalogue_page_write(fd, &none);
	(void)fdatasync(fd);
}

static int log_write(sqlite3_file *file, const void *buf, int n, sqlite3_int64 offset)
{
	struct log_file *log = (struct log_file *)file;
	sqlite3_file *real = catalogue_vfs_real_of(file);
	bool is_last = n != CATALOGUE_LOG_FRAME && log->page.number && offset == log->page_offset;
	int rc;

	if (n == CATALOGUE_LOG_HEADER && offset == 0)
		drop_stale_page(log, buf);
	if (n == CATALOGUE_LOG_FRAME)
		lower_mark(log, buf, offset);
	if (is_last)
		note_page(log, buf, (size_t)n);
	rc = real->pMethods->xWrite(real, buf, n, offset);
	if (rc == SQLITE_OK)
		note_written(log, buf, n, offset);
	if (rc == SQLITE_OK && is_last)
		keep_page(log);
	return rc;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	sqlite3_file *real = catalogue_vfs_real_of(file);

	return real->pMethods->xTruncate(real, size);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *ret)
{
	sqlite3_file *real = catalogue_vfs_real_of(file);

	return real->pMethods->xFileSize(real, ret);
}

static int log_control(sqlite3_file *file, int op, void *arg)
{
	sqlite3_file *real = catalogue_vfs_real_of(file);

	return real->pMethods->xFileControl(real, op, arg);
}

static int log_sector_size(sqlite3_file *file)
{
	sqlite3_file *real = catalogue_vfs_real_of(file);

	return real->pMethods->xSectorSize(real);
}

static int log_characteristics(sqlite3_file *file)
{
	sqlite3_file *real = catalogue_vfs_real_of(file);

	return real->pMethods->xDeviceCharacteristics(real);
}

/* A log is not locked: SQLite locks the main file and the index of the log. */
static const sqlite3_io_methods log_methods = {
	.iVersion = 1,
	.xClose = log_close,
	.xRead = log_read,
	.xWrite = log_write,
	.xTruncate = log_truncate,
	.xSync = log_sync,
	.xFileSize = log_size,
	.xFileControl = log_control,
	.xSectorSize = log_sector_size,
	.xDeviceCharacteristics = log_characteristics,
};

static int open_log(const char *path, struct log_file *log, int flags, int *ret_flags)
{
	size_t n = strlen(path), cut = strlen(LOG_ENDING);
	sqlite3_file *real = catalogue_vfs_real_of(&log->base);
	int rc;

	if (n < cut || strcmp(path + n - cut, LOG_ENDING) != 0)
		return SQLITE_CANTOPEN;
	*log = (struct log_file){.is_new = access(path, F_OK) != 0,
				 .trust_fd = -1,
				 .main = sqlite3_database_file_object(path)};
	log->path = cairn_strdup(path);
	log->trust_path = cairn_printf("%.*s" TRUST_ENDING, (int)(n - cut), path);
	log->main_path = cairn_strndup(path, n - cut);
	rc = log->path && log->trust_path && log->main_path
		     ? real_vfs->xOpen(real_vfs, path, real, flags, ret_flags)
		     : SQLITE_NOMEM;
	if (rc == SQLITE_OK) {
		log->base.pMethods = &log_methods;
		return SQLITE_OK;
	}
	free(log->path);
	free(log->trust_path);
	free(log->main_path);
	return rc;
}

static int catalogue_vfs_open_any(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
				  int *ret_flags)
{
	(void)vfs;
	file->pMethods = NULL;
	if (path && (flags & SQLITE_OPEN_WAL))
		return open_log(path, (struct log_file *)file, flags, ret_flags);
	return real_vfs->xOpen(real_vfs, path, file, flags, ret_flags);
}

static void register_vfs(void)
{
	real_vfs = pool_catalogue_disk_vfs_register() == SQLITE_OK
			   ? sqlite3_vfs_find(CATALOGUE_DISK_VFS)
			   : NULL;
	if (!real_vfs)
		return;
	own_vfs = *real_vfs;
	own_vfs.pNext = NULL;
	own_vfs.zName = "cairn";
	own_vfs.szOsFile = (int)sizeof(struct log_file) + real_vfs->szOsFile;
	own_vfs.xOpen = catalogue_vfs_open_any;
	is_registered = sqlite3_vfs_register(&own_vfs, 0) == SQLITE_OK;
}

const char *pool_catalogue_vfs_name(void)
{
	pthread_once(&registered, register_vfs);
	return is_registered ? own_vfs.zName : NULL;
}

void pool_catalogue_vfs_checkpoint(bool running)
{
	in_checkpoint = running;
	is_alone = false;
}

void pool_catalogue_vfs_checkpoint_alone(void)
{
	in_checkpoint = is_alone = true;
}
