/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "pool/catalogue/catalogue_log.h"

/* In the trust file, after its two bytes. */
#define MARK_OFFSET 16U

/* The page, after the mark. */
#define PAGE_OFFSET 64U

/* A reader may see a mark that is being written. */
#define READ_TRIES 3

#define GENERATIONS_NEAR 0xffffU

struct stored_mark {
	struct catalogue_mark mark; /* a pool does not move between byte orders */
	uint64_t checksum;
};

_Static_assert(sizeof(struct stored_mark) == 40, "a mark has no padding");

struct stored_page {
	struct catalogue_page page;
	uint64_t checksum;
};

_Static_assert(sizeof(struct stored_page) == 32, "a page has no padding");
_Static_assert(MARK_OFFSET + sizeof(struct stored_mark) <= PAGE_OFFSET, "they do not overlap");

static int open_beside(const char *path, const char *ending, int flags)
{
	cairn_auto_free char *name = cairn_printf("%s%s", path, ending);

	if (!name) {
		errno = ENOMEM;
		return -1;
	}
	return open(name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static uint64_t written_ns(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return 0;
	return (uint64_t)st.st_mtim.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)st.st_mtim.tv_nsec;
}

void pool_catalogue_mark_write(int trust_fd, const char *path, struct catalogue_mark *mark)
{
	struct stored_mark stored;

	mark->main_ns = written_ns(path);
	stored = (struct stored_mark){*mark, block_checksum(mark, sizeof(*mark))};
	(void)cairn_pwrite_full(trust_fd, &stored, sizeof(stored), MARK_OFFSET);
}

static struct catalogue_mark read_mark(int trust_fd)
{
	struct stored_mark stored;

	for (int try = 0; trust_fd >= 0 && try < READ_TRIES; try++) {
		errno = 0;
		if (cairn_pread_full(trust_fd, &stored, sizeof(stored), MARK_OFFSET) !=
		    sizeof(stored))
			break;
		if (stored.checksum == block_checksum(&stored.mark, sizeof(stored.mark)))
			return stored.mark;
	}
	return (struct catalogue_mark){.end = 0};
}

struct catalogue_mark pool_catalogue_mark_read(const char *path)
{
	cairn_auto_fd int fd = open_beside(path, "-trust", O_RDONLY);

	if (fd < 0 && (errno == ENOENT || errno == EACCES))
		errno = 0;
	return read_mark(fd);
}

bool pool_catalogue_mark_is_of(int trust_fd, const uint8_t *salt)
{
	struct catalogue_mark mark = read_mark(trust_fd);

	return mark.end != 0 && memcmp(salt, mark.salt, sizeof(mark.salt)) == 0;
}

void pool_catalogue_page_write(int trust_fd, const struct catalogue_page *page)
{
	struct stored_page stored = {*page, block_checksum(page, sizeof(*page))};

	(void)cairn_pwrite_full(trust_fd, &stored, sizeof(stored), PAGE_OFFSET);
}

struct catalogue_page pool_catalogue_page_read(const char *path)
{
	cairn_auto_fd int fd = open_beside(path, "-trust", O_RDONLY);
	struct stored_page stored;

	if (fd < 0 && (errno == ENOENT || errno == EACCES))
		errno = 0;
	for (int try = 0; fd >= 0 && try < READ_TRIES; try++) {
		errno = 0;
		if (cairn_pread_full(fd, &stored, sizeof(stored), PAGE_OFFSET) != sizeof(stored))
			break;
		if (stored.checksum == block_checksum(&stored.page, sizeof(stored.page)) &&
		    stored.page.size <= CATALOGUE_PAGE_MAX)
			return stored.page;
	}
	return (struct catalogue_page){.number = 0};
}

static uint32_t generation_of(const uint8_t *salt)
{
	return (uint32_t)salt[0] << 24 | (uint32_t)salt[1] << 16 | (uint32_t)salt[2] << 8 | salt[3];
}

/* SQLite increments the first word of the salt, with wrap-around, when it restarts a
 * log. If the file was removed before, the word is random and not close to the
 * mark's. */
static bool is_older(const uint8_t *salt, const uint8_t *marked)
{
	uint32_t back = generation_of(marked) - generation_of(salt);

	return back != 0 && back <= GENERATIONS_NEAR;
}

bool pool_catalogue_mark_precedes(int trust_fd, const uint8_t *salt)
{
	struct catalogue_mark mark = read_mark(trust_fd);

	return mark.end != 0 && is_older(mark.salt, salt);
}

/* The log is there, with this salt and size. */
static const char *compare_mark(const struct catalogue_mark *mark, const uint8_t *salt,
				uint64_t size)
{
	if (mark->end == 0)
		return NULL;
	if (memcmp(salt, mark->salt, CATALOGUE_SALT_SIZE) == 0 && size < mark->end)
		return "is cut short";
	if (is_older(salt, mark->salt))
		return "is older than what was committed last";
	return NULL;
}

const char *pool_catalogue_mark_fault(const char *path, const struct catalogue_mark *mark,
				      bool *ret_is_proven)
{
	cairn_auto_fd int fd = -1;
	uint8_t header[CATALOGUE_LOG_HEADER];
	uint8_t salt[CATALOGUE_SALT_SIZE];
	const char *fault;
	struct stat st;

	*ret_is_proven = mark->end != 0 && written_ns(path) == mark->main_ns;
	fd = open_beside(path, "-wal", O_RDONLY);
	if (fd < 0 && errno == ENOENT)
		return "is missing";
	/* Read the size first: a log is truncated only after its salt has
	 * changed. */
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		ssize_t got = cairn_pread_full(fd, header, sizeof(header), 0);

		/* SQLite reports it, or reads the log after all and the index is compared. */
		if (got < 0) {
			*ret_is_proven = false;
			return NULL;
		}
		if (got != sizeof(header) || !pool_catalogue_log_salt(header, salt))
			return "is empty or damaged";
		fault = compare_mark(mark, salt, (uint64_t)st.st_size);
		*ret_is_proven = fault != NULL;
		/* Restarted by a process that was killed: the old log may have been lost. */
		if (!fault && memcmp(salt, mark->salt, sizeof(salt)) != 0 &&
		    !pool_catalogue_log_has_commit(fd, NULL, 0))
			return "holds no commit";
		return fault;
	}
	*ret_is_proven = false;
	return NULL;
}

int pool_catalogue_mark_is_reached(const char *path, const struct catalogue_mark *mark)
{
	cairn_auto_fd int fd = open_beside(path, "-wal", O_RDONLY);
	uint8_t header[CATALOGUE_LOG_HEADER], salt[CATALOGUE_SALT_SIZE];
	int64_t end = 0;
	ssize_t got;

	if (fd < 0)
		return errno == ENOENT ? 1 : -1;
	if (pool_catalogue_log_walk(fd, false, &end) < 0)
		return -1;
	if ((uint64_t)end >= mark->end)
		return 1;
	/* Read the header last: a log that was restarted meanwhile has another
	 * salt. */
	got = cairn_pread_full(fd, header, sizeof(header), 0);
	if (got < 0)
		return -1;
	return got != sizeof(header) || !pool_catalogue_log_salt(header, salt) ||
	       memcmp(salt, mark->salt, sizeof(salt)) != 0;
}

void pool_catalogue_mark_lower(int trust_fd, const char *path, const uint8_t *salt, uint64_t offset)
{
	struct catalogue_mark mark = read_mark(trust_fd);

	if (mark.end <= offset || memcmp(salt, mark.salt, sizeof(mark.salt)) != 0 ||
	    pool_catalogue_mark_is_reached(path, &mark) != 1)
		return;
	mark.end = offset;
	if (mark.start > offset)
		mark.start = offset;
	pool_catalogue_mark_write(trust_fd, path, &mark);
	(void)fdatasync(trust_fd);
}

int pool_catalogue_mark_clear(const char *path)
{
	static const struct stored_mark none;
	cairn_auto_fd int fd = open_beside(path, "-trust", O_RDWR);

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	return cairn_pwrite_full(fd, &none, sizeof(none), MARK_OFFSET);
}
