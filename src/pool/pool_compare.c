/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/pool_compare.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/store/store.h"

#define CHUNK (256U << 10)
#define UNIT  4096U

struct pool_compare {
	struct store_reader *base;
	struct store_reader *target;
	uint64_t base_size;
	uint64_t target_size;
	struct store_progress progress; /* copied: a caller's may end before the iteration */
	uint64_t position;              /* everything before it is reported */
	/* The chunk that was read: [begin, end), and a buffer for each side. */
	uint64_t begin, end;
	uint8_t *old, *now;
};

int pool_compare_new(const struct pool_compare_spec *spec, struct pool_compare **ret,
		     struct cairn_err *err)
{
	cairn_cleanup(pool_compare_freep) struct pool_compare *c = cairn_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return cairn_err_nomem(err, "comparison");
	c->base_size = spec->base_size;
	c->target_size = spec->target_size;
	c->position = spec->start;
	if (spec->progress)
		c->progress = (struct store_progress){.cancelled = spec->progress->cancelled,
						      .arg = spec->progress->arg};
	c->old = cairn_alloc(CHUNK);
	c->now = cairn_alloc(CHUNK);
	if (!c->old || !c->now)
		return cairn_err_nomem(err, "comparison");
	rc = pool_store_reader_open(spec->store, (struct store_ref){STORE_SNAPSHOT, spec->base_id},
				    &c->base, err);
	if (!rc)
		rc = pool_store_reader_open(spec->store,
					    (struct store_ref){STORE_SNAPSHOT, spec->target_id},
					    &c->target, err);
	if (rc)
		return rc;
	*ret = cairn_take(c);
	return 0;
}

void pool_compare_free(struct pool_compare *c)
{
	pool_store_reader_freep(&c->base);
	pool_store_reader_freep(&c->target);
	free(c->old);
	free(c->now);
	free(c);
}

/* Reads the part of [begin, end) that lies below `size`, and zeros after it. */
static int read_side(struct store_reader *reader, uint64_t size, const struct pool_compare *c,
		     uint8_t *buf, struct cairn_err *err)
{
	size_t n = (size_t)(c->end - c->begin);
	uint64_t below = size > c->begin ? size - c->begin : 0;
	size_t want = below < n ? (size_t)below : n;
	size_t got = 0;
	int rc = want ? pool_store_reader_read(reader, c->begin, buf, want, &got, err) : 0;

	if (rc)
		return rc;
	if (got < want)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "a snapshot's data is shorter than its size");
	memset(buf + want, 0, n - want);
	return 0;
}

static int fill_chunk(struct pool_compare *c, struct cairn_err *err)
{
	uint64_t end = c->position - c->position % UNIT + CHUNK;
	int rc;

	if (c->progress.cancelled && c->progress.cancelled(c->progress.arg))
		return cairn_err_set(err, CAIRN_CANCELLED, "comparison cancelled");
	c->begin = c->position;
	c->end = end < c->target_size ? end : c->target_size;
	rc = read_side(c->base, c->base_size, c, c->old, err);
	return rc ? rc : read_side(c->target, c->target_size, c, c->now, err);
}

static bool pool_compare_is_zero(const uint8_t *data, size_t n)
{
	return data[0] == 0 && memcmp(data, data + 1, n - 1) == 0;
}

/* Judges the block at the position, which is in the chunk, and moves on. */
static bool take_block(struct pool_compare *c, struct block_extent *ret)
{
	size_t at = (size_t)(c->position - c->begin);
	uint64_t end = c->position - c->position % UNIT + UNIT;
	size_t n = (size_t)((end < c->end ? end : c->end) - c->position);
	bool differs = c->position + n > c->base_size || memcmp(c->old + at, c->now + at, n) != 0;

	*ret = (struct block_extent){
		.offset = c->position, .length = n, .zero = pool_compare_is_zero(c->now + at, n)};
	c->position += n;
	return differs;
}

int pool_compare_next(struct pool_compare *c, struct block_extent *out, size_t max, size_t *ret_n,
		      struct cairn_err *err)
{
	size_t n = 0;

	while (c->position < c->target_size) {
		uint64_t before = c->position;
		struct block_extent block;
		int rc = c->position >= c->end || c->end == 0 ? fill_chunk(c, err) : 0;

		if (rc)
			return rc;
		if (!take_block(c, &block))
			continue;
		if (n > 0 && out[n - 1].zero == block.zero &&
		    block_extent_end(&out[n - 1]) == block.offset) {
			out[n - 1].length += block.length;
			continue;
		}
		if (n == max) { /* judged again by the next call */
			c->position = before;
			break;
		}
		out[n++] = block;
	}
	*ret_n = n;
	return 0;
}
