/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/copy/sparse.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#define CHUNK    (1U << 20)
#define HOLE_MIN (64U << 10) /* shorter runs of zeros are written: fewer extents */
#define TRIES    3

/* Two writes within one tick of the kernel's clock can leave the same time. */
#define TICK_NS         (20 * CAIRN_NS_PER_MS)
#define TICK_WAIT_TURNS 20

bool sparse_is_zero(const void *data, size_t n)
{
	const char *p = data;

	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static int copy_range(int from, int to, uint64_t start, uint64_t end, char *buf,
		      struct cairn_err *err)
{
	while (start < end) {
		size_t want = end - start < CHUNK ? (size_t)(end - start) : CHUNK;
		ssize_t got = cairn_pread_full(from, buf, want, start);

		if (got < 0)
			return cairn_err_sys(err, errno, "read while copying");
		for (size_t i = 0; i < (size_t)got; i += HOLE_MIN) {
			size_t n = (size_t)got - i < HOLE_MIN ? (size_t)got - i : HOLE_MIN;

			if (sparse_is_zero(buf + i, n))
				continue;
			if (cairn_pwrite_full(to, buf + i, n, start + i) < 0)
				return cairn_err_sys(err, errno, "write while copying");
		}
		if ((size_t)got < want)
			break;
		start += want;
	}
	return 0;
}

int sparse_copy(int from, int to, uint64_t size, struct cairn_err *err)
{
	cairn_auto_free char *buf = cairn_alloc(CHUNK);
	uint64_t at = 0;

	if (!buf)
		return cairn_err_nomem(err, "copy");
	if (ftruncate(to, (off_t)size) < 0)
		return cairn_err_sys(err, errno, "set the size of a copy");
	while (at < size) {
		off_t data = lseek(from, (off_t)at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		uint64_t end;
		int rc;

		if (hole < 0 && errno == ENXIO)
			break;
		if (hole < 0)
			return cairn_err_sys(err, errno, "find data");
		end = (uint64_t)hole < size ? (uint64_t)hole : size;
		rc = copy_range(from, to, (uint64_t)data, end, buf, err);
		if (rc)
			return rc;
		at = end;
	}
	return 0;
}

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * (int64_t)CAIRN_NS_PER_SEC + t.tv_nsec;
}

/* Waits until a write would leave another time than the file has now. */
static int stat_settled(int fd, struct stat *st, struct cairn_err *err)
{
	for (int turn = 0;; turn++) {
		struct timespec now;
		int64_t age;

		if (fstat(fd, st) < 0)
			return cairn_err_sys(err, errno, "times of a volume");
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		age = ns_of(now) - ns_of(st->st_mtim);
		if (age > (int64_t)TICK_NS || age < -(int64_t)TICK_NS)
			return 0;
		if (turn == TICK_WAIT_TURNS)
			return cairn_err_set(err, CAIRN_ABORTED, "it is being written");
		cairn_sleep_ms(TICK_NS / CAIRN_NS_PER_MS / 2);
	}
}

static bool same_times(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && ns_of(a->st_mtim) == ns_of(b->st_mtim) &&
	       ns_of(a->st_ctim) == ns_of(b->st_ctim);
}

int sparse_copy_still(int from, int to, struct cairn_err *err)
{
	for (int try = 0; try < TRIES; try++) {
		struct stat before, after;
		int rc;

		/* Stores through a mapping are noticed once per write-back. */
		if (fsync(from) < 0)
			return cairn_err_sys(err, errno, "sync a volume");
		rc = stat_settled(from, &before, err);
		if (rc == CAIRN_ABORTED)
			continue;
		if (rc)
			return rc;
		if (ftruncate(to, 0) < 0)
			return cairn_err_sys(err, errno, "empty a copy");
		rc = sparse_copy(from, to, (uint64_t)before.st_size, err);
		if (rc)
			return rc;
		if (fsync(from) < 0 || fstat(from, &after) < 0)
			return cairn_err_sys(err, errno, "times of a volume");
		if (same_times(&before, &after))
			return 0;
	}
	return cairn_err_set(err, CAIRN_ABORTED,
			     "the volume is written while it is copied; stop its writers or freeze "
			     "its filesystem, then try again");
}
