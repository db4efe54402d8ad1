/* SPDX-License-Identifier: Apache-2.0 */

#include "block/set.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "block/set_format.h"

/* Size of the output buffer. */
#define OUT_SIZE 65536U

/* Granules of one kind. */
struct run {
	uint64_t start;
	uint64_t end; /* == start: empty */
	bool zero;
};

struct block_set_writer {
	struct block_output output;
	struct set_header header;
	struct set_footer footer;
	unsigned shift;
	int failed; /* code of the first failed write; final */
	bool finished;

	/* Input passes three stages: adjacent bytes of one kind, then granules of one kind, then
	 * the current block. */
	uint64_t last_end; /* of what was added, also past the volume's end */
	struct block_extent bytes;
	struct run run;

	uint64_t block_start; /* first granule */
	uint64_t block_end;   /* granule after the last extent */
	unsigned block_extents;
	uint8_t *block_tail; /* where the next extent goes */
	uint8_t block[SET_BLOCK_SIZE_MAX + VARINT_BYTES_MAX];

	uint64_t out_offset; /* file offset of out[0] */
	size_t out_len;
	uint8_t out[OUT_SIZE];

	size_t index_len;
	struct set_index_entry index[SET_INDEX_MAX];
};

int block_set_writer_new(const struct block_set_info *info, struct block_output output,
			 struct block_set_writer **ret, struct cairn_err *err)
{
	struct set_header header = {
		.volume_size = info->volume_size,
		.base_size = info->base_size,
		.granularity = info->granularity,
	};
	struct block_set_writer *writer;
	int rc;

	rc = block_set_header_check(&header, err);
	if (rc < 0)
		return rc;
	writer = cairn_calloc(1, sizeof(*writer));
	if (!writer)
		return cairn_err_nomem(err, "change set writer");
	block_set_header_encode(&header, writer->out);
	writer->out_len = SET_HEADER_SIZE;
	writer->output = output;
	writer->header = header;
	writer->footer.header_checksum = header.checksum;
	writer->footer.index_stride = 1;
	writer->shift = (unsigned)__builtin_ctz(header.granularity);
	writer->block_tail = writer->block + SET_BLOCK_HEADER_SIZE;
	*ret = writer;
	return 0;
}

void block_set_writer_free(struct block_set_writer *writer)
{
	free(writer);
}

static int flush_out(struct block_set_writer *w, struct cairn_err *err)
{
	int rc;

	if (w->out_len == 0)
		return 0;
	rc = w->output.write(w->output.arg, w->out, w->out_len, err);
	if (rc < 0) {
		w->failed = rc;
		return rc;
	}
	w->out_offset += w->out_len;
	w->out_len = 0;
	return 0;
}

static int put_out(struct block_set_writer *w, const void *data, size_t n, struct cairn_err *err)
{
	int rc;

	if (n > OUT_SIZE - w->out_len) {
		rc = flush_out(w, err);
		if (rc < 0)
			return rc;
	}
	memcpy(w->out + w->out_len, data, n);
	w->out_len += n;
	return 0;
}

/* Records where the block begins, if the index keeps an entry for its number. */
static void index_block(struct block_set_writer *w)
{
	if (w->footer.blocks % w->footer.index_stride != 0)
		return;
	if (w->index_len == SET_INDEX_MAX) {
		for (size_t i = 0; i < SET_INDEX_MAX / 2; i++)
			w->index[i] = w->index[2 * i];
		w->index_len = SET_INDEX_MAX / 2;
		w->footer.index_stride *= 2;
		/* The index is full at n * stride blocks with n even, so this block keeps its
		 * entry. */
	}
	w->index[w->index_len++] = (struct set_index_entry){
		.granule = w->block_start,
		.offset = w->out_offset + w->out_len,
	};
}

static int flush_block(struct block_set_writer *w, struct cairn_err *err)
{
	size_t size = (size_t)(w->block_tail - w->block);

	if (w->block_extents == 0)
		return 0;
	set_put(w->block + 8, size - SET_BLOCK_HEADER_SIZE, 2);
	w->block[10] = (uint8_t)(w->block_extents - 1);
	set_put(w->block, block_checksum(w->block + 8, size - 8), 8);
	index_block(w);
	w->footer.blocks++;
	w->block_extents = 0;
	w->block_tail = w->block + SET_BLOCK_HEADER_SIZE;
	return put_out(w, w->block, size, err);
}

/* Stage three: adds an extent to the block. */
static int encode_run(struct block_set_writer *w, struct cairn_err *err)
{
	const struct run *run = &w->run;
	uint64_t end = run->end << w->shift;
	uint64_t tail = ((run->end - run->start - 1) << 1) | run->zero;
	uint64_t bytes;

	if (run->start == run->end)
		return 0;
	if (w->block_extents == 0) {
		w->block_start = run->start;
		w->block_end = 0;
	}
	w->block_tail = varint_put(w->block_tail, ((run->start - w->block_end) << 1) | (tail != 0));
	if (tail != 0)
		w->block_tail = varint_put(w->block_tail, tail);
	w->block_end = run->end;
	w->block_extents++;

	bytes = (end < w->header.volume_size ? end : w->header.volume_size) -
		(run->start << w->shift);
	w->footer.extents++;
	w->footer.changed_bytes += bytes;
	w->footer.zero_bytes += run->zero ? bytes : 0;
	return w->block_extents == SET_BLOCK_EXTENTS ? flush_block(w, err) : 0;
}

/* Stage two. A granule can occur twice, from two ranges that each contain a part of it;
 * both times it is not zero, so the first one is kept. */
static int add_run(struct block_set_writer *w, uint64_t start, uint64_t end, bool zero,
		   struct cairn_err *err)
{
	int rc;

	if (start < w->run.end)
		start = w->run.end;
	if (start >= end)
		return 0;
	if (start == w->run.end && zero == w->run.zero && w->run.start != w->run.end) {
		w->run.end = end;
		return 0;
	}
	rc = encode_run(w, err);
	if (rc < 0)
		return rc;
	w->run = (struct run){.start = start, .end = end, .zero = zero};
	return 0;
}

/* Rounds the collected bytes to granules: changed ranges outward, zero ranges inward. The
 * end of the volume is the end of its last granule. */
static int flush_bytes(struct block_set_writer *w, struct cairn_err *err)
{
	uint64_t mask = w->header.granularity - 1ULL;
	uint64_t begin = w->bytes.offset;
	uint64_t end = block_extent_end(&w->bytes);
	uint64_t first = begin >> w->shift;
	uint64_t behind = (end + mask) >> w->shift;
	uint64_t zero_first = (begin + mask) >> w->shift;
	uint64_t zero_behind = end == w->header.volume_size ? behind : end >> w->shift;
	int rc;

	if (w->bytes.length == 0)
		return 0;
	w->bytes.length = 0;
	if (!w->bytes.zero || zero_first >= zero_behind)
		return add_run(w, first, behind, false, err);
	rc = add_run(w, first, zero_first, false, err);
	if (rc == 0)
		rc = add_run(w, zero_first, zero_behind, true, err);
	if (rc == 0)
		rc = add_run(w, zero_behind, behind, false, err);
	return rc;
}

static int set_writer_usable(const struct block_set_writer *w, struct cairn_err *err)
{
	if (w->failed)
		return cairn_err_set(err, w->failed, "writing the change set failed before");
	if (w->finished)
		return cairn_err_set(err, CAIRN_INVALID, "the change set is finished");
	return 0;
}

int block_set_writer_add(struct block_set_writer *w, const struct block_extent *extent,
			 struct cairn_err *err)
{
	uint64_t end;
	int rc;

	rc = set_writer_usable(w, err);
	if (rc < 0)
		return rc;
	if (extent->length == 0 || __builtin_add_overflow(extent->offset, extent->length, &end))
		return cairn_err_set(err, CAIRN_INVALID, "extent at %" PRIu64 " is empty or wraps",
				     extent->offset);
	if (extent->offset < w->last_end)
		return cairn_err_set(err, CAIRN_INVALID,
				     "extent at %" PRIu64 " begins before %" PRIu64
				     ", where the last one ends",
				     extent->offset, w->last_end);
	w->last_end = end;
	if (extent->offset >= w->header.volume_size)
		return 0;
	if (end > w->header.volume_size)
		end = w->header.volume_size;
	if (w->bytes.length != 0 && w->bytes.zero == extent->zero &&
	    block_extent_end(&w->bytes) == extent->offset) {
		w->bytes.length = end - w->bytes.offset;
		return 0;
	}
	rc = flush_bytes(w, err);
	if (rc < 0)
		return rc;
	w->bytes = (struct block_extent){
		.offset = extent->offset,
		.length = end - extent->offset,
		.zero = extent->zero,
	};
	return 0;
}

static int sink_emit(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	return block_set_writer_add(arg, extent, err);
}

struct block_sink block_set_writer_sink(struct block_set_writer *writer)
{
	return (struct block_sink){.emit = sink_emit, .arg = writer};
}

/* The index needs its own memory, because its checksum covers the whole of it. */
static int set_writer_write_index(struct block_set_writer *w, struct cairn_err *err)
{
	struct set_index_entry last = {0};
	cairn_auto_free uint8_t *bytes = NULL;
	uint8_t *p;
	int rc;

	bytes = cairn_alloc(w->index_len * 2 * VARINT_BYTES_MAX);
	if (!bytes)
		return cairn_err_nomem(err, "change set index");
	p = bytes;
	for (size_t i = 0; i < w->index_len; i++) {
		p = varint_put(p, w->index[i].granule - last.granule);
		p = varint_put(p, w->index[i].offset - last.offset);
		last = w->index[i];
	}
	w->footer.index_offset = w->out_offset + w->out_len;
	w->footer.index_entries = (uint32_t)w->index_len;
	w->footer.index_checksum = block_checksum(bytes, (size_t)(p - bytes));
	rc = flush_out(w, err);
	if (rc < 0 || w->index_len == 0)
		return rc;
	rc = w->output.write(w->output.arg, bytes, (size_t)(p - bytes), err);
	if (rc < 0)
		w->failed = rc;
	return rc;
}

int block_set_writer_finish(struct block_set_writer *w, struct block_set_info *ret_info,
			    struct cairn_err *err)
{
	uint8_t footer[SET_FOOTER_SIZE];
	int rc;

	rc = set_writer_usable(w, err);
	if (rc == 0)
		rc = flush_bytes(w, err);
	if (rc == 0)
		rc = encode_run(w, err);
	if (rc == 0)
		rc = flush_block(w, err);
	if (rc == 0)
		rc = set_writer_write_index(w, err);
	if (rc < 0)
		return rc;
	block_set_footer_encode(&w->footer, footer);
	rc = put_out(w, footer, sizeof(footer), err);
	if (rc == 0)
		rc = flush_out(w, err);
	if (rc < 0)
		return rc;
	w->finished = true;
	if (ret_info)
		*ret_info = (struct block_set_info){
			.volume_size = w->header.volume_size,
			.base_size = w->header.base_size,
			.granularity = w->header.granularity,
			.extents = w->footer.extents,
			.changed_bytes = w->footer.changed_bytes,
			.zero_bytes = w->footer.zero_bytes,
		};
	return 0;
}
