/* SPDX-License-Identifier: Apache-2.0 */

#include "client/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cairn/client.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/store/store.h"

#define MIRROR_CHUNK (1U << 20)
#define MIRROR_GRAIN 4096U

static int mirror_open_one(const char *path, int flags, int *ret_fd, uint64_t *ret_size,
			   struct stat *st, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(path, flags | O_CLOEXEC);
	uint64_t size = 0;

	if (fd < 0 || fstat(fd, st) < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	if (S_ISREG(st->st_mode))
		size = (uint64_t)st->st_size;
	else if (!S_ISBLK(st->st_mode))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is neither a device nor a file",
				     path);
	else if (ioctl(fd, BLKGETSIZE64, &size) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", path);
	*ret_fd = cairn_take_fd(&fd);
	*ret_size = size;
	return 0;
}

static bool mirror_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode))
		return a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

int client_mirror_open(struct client_mirror *mirror, const char *source, const char *target,
		       struct cairn_err *err)
{
	struct stat from, to;
	uint64_t target_size;
	int rc;

	*mirror = (struct client_mirror)CLIENT_MIRROR_INIT;
	mirror->source_path = source;
	mirror->target_path = target;
	rc = mirror_open_one(source, O_RDONLY, &mirror->source, &mirror->size, &from, err);
	if (!rc)
		rc = mirror_open_one(target, O_RDWR, &mirror->target, &target_size, &to, err);
	if (rc)
		return rc;
	if (mirror_same(&from, &to))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' and '%s' are the same", source,
				     target);
	if (mirror->size != target_size)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' has %" PRIu64 " bytes and '%s' has %" PRIu64, source,
				     mirror->size, target, target_size);
	mirror->buffers = cairn_alloc(2UL * MIRROR_CHUNK);
	return mirror->buffers ? 0 : cairn_err_nomem(err, "buffers");
}

void client_mirror_done(struct client_mirror *mirror)
{
	cairn_closep(&mirror->source);
	cairn_closep(&mirror->target);
	free(mirror->buffers);
	*mirror = (struct client_mirror)CLIENT_MIRROR_INIT;
}

/* Reads exactly `n` bytes: the sizes are known, so a short read is an error. */
static int read_part(int fd, const char *path, uint8_t *to, size_t n, uint64_t offset,
		     struct cairn_err *err)
{
	ssize_t got = cairn_pread_full(fd, to, n, offset);

	if (got < 0)
		return cairn_err_sys(err, errno, "read '%s'", path);
	if ((size_t)got < n)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' ends at %" PRIu64, path,
				     offset + (uint64_t)got);
	return 0;
}

static int mirror_copy_one(struct client_mirror *mirror, uint64_t at, uint64_t end,
			   struct cairn_err *err)
{
	while (at < end) {
		size_t n = end - at < MIRROR_CHUNK ? (size_t)(end - at) : MIRROR_CHUNK;
		int rc =
			read_part(mirror->source, mirror->source_path, mirror->buffers, n, at, err);

		if (rc)
			return rc;
		if (cairn_pwrite_full(mirror->target, mirror->buffers, n, at) < 0)
			return cairn_err_sys(err, errno, "write '%s'", mirror->target_path);
		at += n;
		mirror->copied_bytes += n;
	}
	return 0;
}

int client_mirror_copy(struct client_mirror *mirror, const struct cairn_block *blocks, size_t n,
		       struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t end = blocks[i].offset + blocks[i].length;
		int rc;

		if (blocks[i].offset >= mirror->size)
			return cairn_err_set(err, CAIRN_RANGE,
					     "a block begins at %" PRIu64
					     ", behind the end of '%s'",
					     blocks[i].offset, mirror->source_path);
		rc = mirror_copy_one(mirror, blocks[i].offset,
				     end < mirror->size ? end : mirror->size, err);
		if (rc)
			return rc;
	}
	return 0;
}

static void mirror_compare_chunk(const struct client_mirror *mirror, uint64_t at, size_t n,
				 struct client_mirror_result *result)
{
	const uint8_t *source = mirror->buffers, *target = mirror->buffers + MIRROR_CHUNK;

	if (memcmp(source, target, n) == 0)
		return;
	for (size_t i = 0; i < n; i += MIRROR_GRAIN) {
		size_t part = n - i < MIRROR_GRAIN ? n - i : MIRROR_GRAIN;

		if (memcmp(source + i, target + i, part) == 0)
			continue;
		if (result->differing_bytes == 0)
			result->first = at + i;
		result->differing_bytes += part;
	}
}

int client_mirror_compare(struct client_mirror *mirror, const struct store_progress *progress,
			  struct client_mirror_result *ret, struct cairn_err *err)
{
	struct client_mirror_result result = {0};

	if (fsync(mirror->target) < 0)
		return cairn_err_sys(err, errno, "sync '%s'", mirror->target_path);
	for (uint64_t at = 0; at < mirror->size; at += MIRROR_CHUNK) {
		uint64_t left = mirror->size - at;
		size_t n = left < MIRROR_CHUNK ? (size_t)left : MIRROR_CHUNK;
		int rc =
			read_part(mirror->source, mirror->source_path, mirror->buffers, n, at, err);

		if (!rc)
			rc = read_part(mirror->target, mirror->target_path,
				       mirror->buffers + MIRROR_CHUNK, n, at, err);
		if (rc)
			return rc;
		mirror_compare_chunk(mirror, at, n, &result);
		result.compared_bytes += n;
		if (progress && progress->cancelled(progress->arg))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		if (progress)
			progress->report(progress->arg, result.compared_bytes, mirror->size);
	}
	*ret = result;
	return 0;
}
