/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_shm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_log.h"
#include "pool/catalogue/catalogue_mark.h"
#include "pool/store/reserve.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* SQLite's file format (walformat.html): eight lock bytes, and one after them
 * that every process holds shared while it has the index open. */
#define LOCK_BASE   120
#define LOCK_ALIVE  (LOCK_BASE + SQLITE_SHM_NLOCK)
#define HEADER_SIZE 136U
#define SLOT_WRITE  0 /* the slot; recovery holds it too */

/* A process holds LOCK_ALIVE exclusively only while it writes HEADER_SIZE
 * bytes. */
#define ALIVE_WAIT_MS 5000U

/* Limits what a damaged log can make us map: 8 GiB of log. */
#define REGIONS_MAX 512U

struct shm {
	int fd;
	const char *path; /* of the database; borrowed */
	char *name;       /* of the index */
	bool read_only;
	bool joined;                /* a connection that has not joined reads the log without the
				     * index */
	unsigned shared, exclusive; /* bits of the slots that are held */
	size_t n;
	size_t region_size;
	void *regions[REGIONS_MAX];
};

static int set_lock(int fd, int type, off_t start, off_t n)
{
	struct flock lock = {
		.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = n};
	int rc;

	do
		rc = fcntl(fd, F_OFD_SETLK, &lock);
	while (rc < 0 && errno == EINTR);
	return rc;
}

void pool_shm_write_in_place(int fd)
{
	int flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_NOCOW_FL;
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
}

/* As SQLite does for the files that it creates: a pool's owner must be able to
 * use files that root created. */
static void adopt_owner(int fd, const char *path, size_t db_len)
{
	cairn_auto_free char *db = cairn_strndup(path, db_len);
	struct stat st;

	if (db && stat(db, &st) == 0) {
		(void)fchmod(fd, st.st_mode & 0777);
		if (geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) < 0)
			return;
	}
	pool_shm_write_in_place(fd);
}

int pool_shm_open_beside(const char *path, size_t db_len, int *ret_fd)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	cairn_auto_fd int fd = -1;
	struct stat st;

	for (int try = 0; try < 10 && fd < 0; try++) {
		fd = open(path, flags);
		if (fd >= 0 || errno != ENOENT)
			break;
		fd = open(path, flags | O_CREAT | O_EXCL, 0600);
		if (fd >= 0)
			adopt_owner(fd, path, db_len);
		else if (errno != EEXIST)
			break;
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

static bool catalogue_shm_is_full(int sys_errno)
{
	return sys_errno == ENOSPC || sys_errno == EDQUOT;
}

/* Frees a slice of the reserve, which is in the directory of the database. */
static bool yield_space(const struct shm *shm)
{
	cairn_auto_free char *dir = cairn_strdup(shm->path);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	cairn_auto_fd int fd = -1;

	if (!dir)
		return false;
	if (slash)
		*slash = '\0';
	fd = open(slash ? (dir[0] ? dir : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && pool_reserve_yield(fd);
}

/* The contents from an earlier use may not match the log any more: clearing the
 * header makes the index uninitialised, and the first transaction rebuilds it
 * from the log. */
static int clear_header(struct shm *shm)
{
	static const char zeros[HEADER_SIZE];
	struct stat st;

	if (fstat(shm->fd, &st) < 0)
		return SQLITE_IOERR_FSTAT;
	if (st.st_size == 0)
		return SQLITE_OK;
	while (cairn_pwrite_full(shm->fd, zeros, sizeof(zeros), 0) < 0) {
		if (!catalogue_shm_is_full(errno))
			return SQLITE_IOERR_WRITE;
		if (!yield_space(shm)) /* it may change errno */
			return SQLITE_FULL;
	}
	return SQLITE_OK;
}

/* Joins the users of the index: the first one clears it. */
static int catalogue_shm_join(struct shm *shm)
{
	struct flock others = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_ALIVE, .l_len = 1};

	if (shm->read_only) {
		if (fcntl(shm->fd, F_OFD_GETLK, &others) < 0)
			return SQLITE_IOERR_LOCK;
		if (others.l_type == F_UNLCK)
			return SQLITE_READONLY_CANTINIT;
	} else if (set_lock(shm->fd, F_WRLCK, LOCK_ALIVE, 1) == 0) {
		int rc = clear_header(shm);

		if (rc != SQLITE_OK)
			return rc;
	} else if (errno != EAGAIN && errno != EACCES) {
		return SQLITE_IOERR_LOCK;
	}
	for (unsigned i = 0; set_lock(shm->fd, F_RDLCK, LOCK_ALIVE, 1) < 0; i++) {
		if (errno != EAGAIN && errno != EACCES)
			return SQLITE_IOERR_LOCK;
		if (i >= ALIVE_WAIT_MS)
			return SQLITE_BUSY;
		cairn_sleep_ms(1);
	}
	return SQLITE_OK;
}

/* A writer cannot use an index that it may only read: its exclusive locks need a descriptor for
 * writing. */
static int catalogue_shm_open_files(struct shm *shm, const char *path, bool writable)
{
	shm->name = cairn_printf("%s-shm", path);
	if (!shm->name)
		return SQLITE_NOMEM;
	while (pool_shm_open_beside(shm->name, strlen(path), &shm->fd) < 0) {
		if (errno == ENOMEM)
			return SQLITE_NOMEM;
		if (catalogue_shm_is_full(errno)) {
			if (!yield_space(shm))
				return SQLITE_FULL;
			continue;
		}
		if (writable || (errno != EACCES && errno != EPERM && errno != EROFS))
			return SQLITE_CANTOPEN;
		shm->fd = open(shm->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		shm->read_only = true;
		break;
	}
	return shm->fd < 0 ? SQLITE_CANTOPEN : SQLITE_OK;
}

/* The offset of a region within its page, if pages are larger than regions. */
static size_t page_lead(const struct shm *shm, size_t region)
{
	return region * shm->region_size % (size_t)sysconf(_SC_PAGESIZE);
}

int pool_shm_open_for(const char *path, bool writable, struct shm **ret)
{
	struct shm *shm = cairn_calloc(1, sizeof(*shm));
	int rc;

	if (!shm)
		return SQLITE_NOMEM;
	shm->fd = -1;
	shm->path = path;
	rc = catalogue_shm_open_files(shm, path, writable);
	if (rc != SQLITE_OK) {
		pool_shm_close(shm);
		return rc;
	}
	*ret = shm;
	return SQLITE_OK;
}

void pool_shm_close(struct shm *shm)
{
	if (!shm)
		return;
	for (size_t i = 0; i < shm->n; i++)
		munmap((char *)shm->regions[i] - page_lead(shm, i),
		       shm->region_size + page_lead(shm, i));
	cairn_closep(&shm->fd);
	free(shm->name);
	free(shm);
}

/* Makes the pages of a region's first `n` bytes writable now. Without this, a
 * copy-on-write filesystem without free blocks would raise SIGBUS on the write
 * itself. Kernels before 5.14 do not support the request. */
static int make_writable(const struct shm *shm, size_t region, size_t n)
{
	size_t lead = page_lead(shm, region);
	char *memory = (char *)shm->regions[region] - lead;

	while (madvise(memory, n + lead, MADV_POPULATE_WRITE) < 0) {
		if (errno == EINVAL)
			return SQLITE_OK;
		if (errno == EINTR || errno == EAGAIN)
			continue;
		if (errno == ENOMEM)
			return SQLITE_NOMEM;
		if (!yield_space(shm))
			return SQLITE_FULL;
	}
	return SQLITE_OK;
}

/* Writes every block, so that none is missing when its page is accessed. */
static int extend_to(const struct shm *shm, uint64_t from, uint64_t to)
{
	static const char zeros[4096];

	while (from < to) {
		uint64_t n = sizeof(zeros) - from % sizeof(zeros);

		n = n < to - from ? n : to - from;
		if (cairn_pwrite_full(shm->fd, zeros, n, from) == 0)
			from += n;
		else if (!catalogue_shm_is_full(errno))
			return SQLITE_IOERR_SHMSIZE;
		else if (!yield_space(shm))
			return SQLITE_FULL;
	}
	return SQLITE_OK;
}

static int map_next(struct shm *shm, bool extend, bool *ret_short)
{
	uint64_t end = (shm->n + 1) * (uint64_t)shm->region_size;
	size_t lead = page_lead(shm, shm->n);
	struct stat st;
	void *memory;
	int rc;

	if (fstat(shm->fd, &st) < 0)
		return SQLITE_IOERR_SHMSIZE;
	*ret_short = (uint64_t)st.st_size < end;
	if (*ret_short && (!extend || shm->read_only))
		return SQLITE_OK;
	rc = *ret_short ? extend_to(shm, (uint64_t)st.st_size, end) : SQLITE_OK;
	if (rc != SQLITE_OK)
		return rc;
	*ret_short = false;
	memory = mmap(NULL, shm->region_size + lead, PROT_READ | (shm->read_only ? 0 : PROT_WRITE),
		      MAP_SHARED, shm->fd, (off_t)(end - shm->region_size - lead));
	if (memory == MAP_FAILED)
		return errno == ENOMEM ? SQLITE_NOMEM : SQLITE_IOERR_SHMMAP;
	shm->regions[shm->n++] = (char *)memory + lead;
	return SQLITE_OK;
}

int pool_shm_map(struct shm *shm, size_t region, size_t size, bool extend, void volatile **ret)
{
	bool is_short = false;

	*ret = NULL;
	if (!shm->joined) {
		int rc = catalogue_shm_join(shm);

		if (rc != SQLITE_OK)
			return rc;
		shm->joined = true;
	}
	if (shm->n == 0)
		shm->region_size = size;
	if (region >= REGIONS_MAX || size != shm->region_size)
		return SQLITE_IOERR_SHMMAP;
	while (shm->n <= region && !is_short) {
		int rc = map_next(shm, extend, &is_short);

		/* A caller that extends holds a lock and writes to the region
		 * next. */
		if (rc == SQLITE_OK && extend && !is_short && !shm->read_only)
			rc = make_writable(shm, shm->n - 1, shm->region_size);
		if (rc != SQLITE_OK)
			return rc;
	}
	if (region < shm->n)
		*ret = shm->regions[region];
	return shm->read_only ? SQLITE_READONLY : SQLITE_OK;
}

/* SQLite's struct WalIndexHdr, of which the index begins with two copies. */
struct index_header {
	uint32_t version, unused, change;
	uint8_t is_made, big_endian;
	uint16_t page_size; /* 1 for 65536 */
	uint32_t frames, pages;
	uint32_t frame_sum[2];
	uint8_t salt[CATALOGUE_SALT_SIZE];
	uint32_t sum[2];
};

bool pool_shm_log_end(const struct shm *shm, uint8_t *ret_salt, uint64_t *ret_end)
{
	struct index_header first, second;

	if (!shm || shm->n == 0)
		return false;
	memcpy(&first, shm->regions[0], sizeof(first));
	__sync_synchronize();
	memcpy(&second, (char *)shm->regions[0] + sizeof(first), sizeof(second));
	/* They differ while a writer updates them; its commit is then not
	 * needed. */
	if (!first.is_made || memcmp(&first, &second, sizeof(first)) != 0)
		return false;
	memcpy(ret_salt, first.salt, sizeof(first.salt));
	*ret_end = CATALOGUE_LOG_HEADER +
		   first.frames * (CATALOGUE_LOG_FRAME +
				   (first.page_size == 1 ? 65536ULL : first.page_size));
	return true;
}

bool pool_shm_is_linked(const struct shm *shm)
{
	struct stat st;

	return fstat(shm->fd, &st) == 0 && st.st_nlink > 0;
}

bool pool_shm_is_current(const struct shm *shm)
{
	struct stat held, named;

	return fstat(shm->fd, &held) == 0 && lstat(shm->name, &named) == 0 &&
	       held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

static int catalogue_shm_unlock(struct shm *shm, off_t start, unsigned n, unsigned mask)
{
	if (((shm->shared | shm->exclusive) & mask) == 0)
		return SQLITE_OK;
	if (set_lock(shm->fd, F_UNLCK, start, n) < 0)
		return SQLITE_IOERR_SHMLOCK;
	shm->shared &= ~mask;
	shm->exclusive &= ~mask;
	return SQLITE_OK;
}

static int lock_exclusive(struct shm *shm, off_t start, unsigned n, unsigned mask)
{
	int rc = SQLITE_OK;

	if (set_lock(shm->fd, F_WRLCK, start, n) < 0)
		return errno == EAGAIN || errno == EACCES ? SQLITE_BUSY : SQLITE_IOERR_SHMLOCK;
	shm->exclusive |= mask;
	/* The index is written only under exclusive locks: all of it by the
	 * process that writes to the log or recovers it, otherwise only the
	 * header. */
	if (mask & (1U << SLOT_WRITE)) {
		for (size_t i = 0; i < shm->n && rc == SQLITE_OK; i++)
			rc = make_writable(shm, i, shm->region_size);
	} else if (shm->n > 0) {
		rc = make_writable(shm, 0, HEADER_SIZE);
	}
	if (rc != SQLITE_OK)
		(void)catalogue_shm_unlock(shm, start, n, mask);
	return rc;
}

int pool_shm_lock(struct shm *shm, unsigned slot, unsigned n, int flags)
{
	unsigned mask = ((1U << n) - 1) << slot;
	off_t start = LOCK_BASE + (off_t)slot;

	if (!shm)
		return SQLITE_IOERR_SHMLOCK;
	if (flags & SQLITE_SHM_UNLOCK)
		return catalogue_shm_unlock(shm, start, n, mask);
	if (flags & SQLITE_SHM_EXCLUSIVE)
		return lock_exclusive(shm, start, n, mask);
	if ((shm->shared & mask) == mask)
		return SQLITE_OK;
	if (set_lock(shm->fd, F_RDLCK, start, n) < 0)
		return errno == EAGAIN || errno == EACCES ? SQLITE_BUSY : SQLITE_IOERR_SHMLOCK;
	shm->shared |= mask;
	return SQLITE_OK;
}

int pool_shm_hold(const struct shm *shm)
{
	/* Locks of an open file last until its last descriptor is closed. */
	return shm && shm->joined && !shm->read_only ? fcntl(shm->fd, F_DUPFD_CLOEXEC, 3) : -1;
}
