/* SPDX-License-Identifier: Apache-2.0 */

#include "store_helper.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cairntest.h"

static int collect(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct collected *c = arg;

	if (c->fail_with)
		return cairn_err_set(err, c->fail_with, "the sink refuses");
	assert_true(extent->length > 0);
	if (c->n > 0)
		assert_true(extent->offset >= block_extent_end(&c->list[c->n - 1]));
	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 64;
		c->list = realloc(c->list, c->room * sizeof(*c->list));
		assert_non_null(c->list);
	}
	c->list[c->n++] = *extent;
	return 0;
}

struct block_sink collected_sink(struct collected *c)
{
	return (struct block_sink){.emit = collect, .arg = c};
}

void collected_done(struct collected *c)
{
	free(c->list);
	*c = (struct collected){0};
}

int open_volume(struct store *store, const char *id)
{
	struct cairn_err err = {0};
	char *path = NULL;
	int fd;

	assert_ok(pool_store_path(store, volume_ref(id), &path, &err), &err);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	free(path);
	return fd;
}

int cut_whole(struct store *store, const char *volume, const char *snapshot, struct cairn_err *err)
{
	uint64_t size = 0;
	int rc = pool_store_size(store, volume_ref(volume), &size, err);

	return rc ? rc : pool_store_snapshot_cut(store, volume, snapshot, size, err);
}

int replace(struct store *store, const char *id, const char *snapshot_id, uint64_t length,
	    uint64_t size, struct cairn_err *err)
{
	const struct store_replacement spec = {
		.id = id, .snapshot_id = snapshot_id, .length = length, .size = size};

	return pool_store_volume_replace(store, &spec, err);
}

void fill_at(struct store *store, const char *id, uint64_t offset, size_t n, unsigned char byte)
{
	int fd = open_volume(store, id);
	char *buf = malloc(n);

	assert_non_null(buf);
	memset(buf, byte, n);
	assert_int_equal(pwrite(fd, buf, n, (off_t)offset), (ssize_t)n);
	free(buf);
	close(fd);
}

unsigned char byte_at(struct store *store, struct store_ref ref, uint64_t offset)
{
	struct store_reader *reader = NULL;
	struct cairn_err err = {0};
	unsigned char byte = 0xee;
	size_t n = 0;

	assert_ok(pool_store_reader_open(store, ref, &reader, &err), &err);
	assert_ok(pool_store_reader_read(reader, offset, &byte, 1, &n, &err), &err);
	assert_int_equal(n, 1);
	pool_store_reader_free(reader);
	return byte;
}

void delta_of(struct store *store, const char *base, const char *target, struct collected *ret)
{
	struct store_delta_stats stats = {0};
	struct cairn_err err = {0};
	uint64_t size = 0;

	assert_ok(pool_store_delta(store, base, target, collected_sink(ret), NULL, &stats, &err),
		  &err);
	assert_non_null(stats.method);
	assert_ok(pool_store_size(store, snapshot_ref(target), &size, &err), &err);
	if (ret->n > 0)
		assert_true(block_extent_end(&ret->list[ret->n - 1]) <= size);
}

bool covers(const struct collected *c, uint64_t offset, uint64_t n)
{
	for (size_t i = 0; i < c->n && n > 0; i++) {
		uint64_t end = block_extent_end(&c->list[i]);

		if (end <= offset)
			continue;
		if (c->list[i].offset > offset)
			return false;
		if (end - offset >= n)
			return true;
		n -= end - offset;
		offset = end;
	}
	return n == 0;
}

void assert_same_extents(const struct collected *a, const struct collected *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		assert_int_equal(a->list[i].offset, b->list[i].offset);
		assert_int_equal(a->list[i].length, b->list[i].length);
		assert_int_equal(a->list[i].zero, b->list[i].zero);
	}
}
