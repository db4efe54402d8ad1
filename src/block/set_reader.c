/* SPDX-License-Identifier: Apache-2.0 */

#include "block/set.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "block/set_format.h"
#include "block/set_reader.h"

/* Size of one read: small ones cost calls, large ones cost memory for each of a hundred
 * sets in a union. After a seek the first read is small and the following ones double,
 * since often a single block is wanted. */
#define BUFFER_DEFAULT 32768U
#define BUFFER_MIN     4352U /* any block fits */
#define BUFFER_MAX     (16U << 20)

_Static_assert(BUFFER_MIN >= SET_BLOCK_SIZE_MAX, "a block must fit into the smallest buffer");

struct block_set_reader {
	struct block_input input;
	struct block_set_info info;
	struct set_footer footer;
	unsigned shift;
	uint64_t granules; /* of the volume */
	int failed;        /* code of the first failure; final */

	uint64_t position;       /* file offset of the next block */
	uint64_t last_end;       /* granule after the last extent of the previous block, or where
	                          * the index says that the next block begins */
	bool last_zero;          /* its kind */
	bool exact;              /* the next block begins at last_end (after a seek) */
	bool from_start;         /* all blocks were read, so the count must match */
	uint64_t extents_walked; /* for that */

	/* The current block, returned up to block_next; allocated when needed. */
	struct set_block *block;
	unsigned block_next;
	unsigned block_len;

	uint8_t *buffer; /* buffer_size + SET_DECODE_SLACK bytes */
	size_t buffer_size;
	uint64_t buffer_offset; /* file offset of its first byte */
	size_t buffer_len;
	size_t refill; /* size of the next read */

	struct set_index_entry *index; /* loaded by the first seek */
};

static int set_reader_damaged(struct block_set_reader *r, struct cairn_err *err, const char *what)
{
	r->failed = CAIRN_DATA_LOSS;
	return cairn_err_set(err, CAIRN_DATA_LOSS, "change set: %s", what);
}

static int load_ends(struct block_set_reader *r, struct cairn_err *err)
{
	uint8_t header_bytes[SET_HEADER_SIZE], footer_bytes[SET_FOOTER_SIZE];
	const struct block_input *in = &r->input;
	struct set_header header;
	int rc;

	if (in->size < SET_HEADER_SIZE + SET_FOOTER_SIZE)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "change set is cut off");
	rc = in->read_at(in->arg, 0, header_bytes, sizeof(header_bytes), err);
	if (rc == 0)
		rc = block_set_header_decode(header_bytes, &header, err);
	if (rc == 0)
		rc = in->read_at(in->arg, in->size - SET_FOOTER_SIZE, footer_bytes,
				 sizeof(footer_bytes), err);
	if (rc == 0)
		rc = block_set_footer_decode(footer_bytes, &header, in->size, &r->footer, err);
	if (rc != 0)
		return rc;
	r->info = (struct block_set_info){
		.volume_size = header.volume_size,
		.base_size = header.base_size,
		.granularity = header.granularity,
		.extents = r->footer.extents,
		.changed_bytes = r->footer.changed_bytes,
		.zero_bytes = r->footer.zero_bytes,
	};
	r->shift = (unsigned)__builtin_ctz(header.granularity);
	r->granules = set_granules(header.volume_size, r->shift);
	return 0;
}

static void rewind_reader(struct block_set_reader *r)
{
	r->position = SET_HEADER_SIZE;
	r->last_end = 0;
	r->exact = false;
	r->from_start = true;
	r->extents_walked = 0;
	r->block_next = r->block_len = 0;
	r->refill = r->buffer_size;
}

int block_set_reader_new(struct block_input input, size_t buffer_size,
			 struct block_set_reader **ret, struct cairn_err *err)
{
	cairn_cleanup(block_set_reader_freep) struct block_set_reader *r = NULL;
	int rc;

	r = cairn_calloc(1, sizeof(*r));
	if (!r)
		return cairn_err_nomem(err, "change set reader");
	r->input = input;
	rc = load_ends(r, err);
	if (rc < 0)
		return rc;
	if (buffer_size == 0)
		buffer_size = BUFFER_DEFAULT;
	if (buffer_size < BUFFER_MIN)
		buffer_size = BUFFER_MIN;
	if (buffer_size > BUFFER_MAX)
		buffer_size = BUFFER_MAX;
	/* A small set is read at once and needs only its own size. */
	if (buffer_size > r->footer.index_offset - SET_HEADER_SIZE)
		buffer_size = r->footer.index_offset - SET_HEADER_SIZE;
	r->buffer_size = buffer_size;
	rewind_reader(r);
	*ret = cairn_take(r);
	return 0;
}

void block_set_reader_free(struct block_set_reader *reader)
{
	if (!reader)
		return;
	free(reader->block);
	free(reader->buffer);
	free(reader->index);
	free(reader);
}

const struct block_set_info *block_set_reader_info(const struct block_set_reader *reader)
{
	return &reader->info;
}

/* Makes the `n` bytes at the position readable through *ret. */
static int set_reader_fetch(struct block_set_reader *r, size_t n, const uint8_t **ret,
			    struct cairn_err *err)
{
	uint64_t left = r->footer.index_offset - r->position;
	size_t want = r->refill;
	int rc;

	if (n > left)
		return set_reader_damaged(r, err, "a block passes the end of the blocks");
	if (r->position >= r->buffer_offset &&
	    r->position - r->buffer_offset + n <= r->buffer_len) {
		*ret = r->buffer + (r->position - r->buffer_offset);
		return 0;
	}
	if (!r->buffer) {
		r->buffer = cairn_calloc(1, r->buffer_size + SET_DECODE_SLACK);
		if (!r->buffer)
			return r->failed = cairn_err_nomem(err, "change set buffer");
	}
	if (want > left)
		want = left;
	r->buffer_len = 0;
	rc = r->input.read_at(r->input.arg, r->position, r->buffer, want, err);
	if (rc < 0)
		return r->failed = rc;
	r->buffer_offset = r->position;
	r->buffer_len = want;
	r->refill = r->refill > r->buffer_size / 2 ? r->buffer_size : r->refill * 2;
	*ret = r->buffer;
	return 0;
}

/* Checks that the block follows the previous one. */
static bool in_sequence(const struct block_set_reader *r, const struct set_block *block)
{
	if (r->exact)
		return block->start == r->last_end;
	if (r->position == SET_HEADER_SIZE)
		return true;
	return block->start > r->last_end ||
	       (block->start == r->last_end && block->first_zero != r->last_zero);
}

/* Checks and decodes the block at the position, which is not the end. */
static int decode_block(struct block_set_reader *r, const struct set_drawing *drawing,
			struct cairn_err *err)
{
	struct set_block *block = r->block;
	const uint8_t *p;
	size_t payload;
	unsigned n;
	int rc;

	rc = set_reader_fetch(r, SET_BLOCK_HEADER_SIZE, &p, err);
	if (rc < 0)
		return rc;
	payload = set_get(p + 8, 2);
	n = p[10] + 1U;
	if (payload > SET_BLOCK_PAYLOAD_MAX)
		return set_reader_damaged(r, err, "a block is too long");
	rc = set_reader_fetch(r, SET_BLOCK_HEADER_SIZE + payload, &p, err);
	if (rc < 0)
		return rc;
	if (block_checksum(p + 8, SET_BLOCK_HEADER_SIZE - 8 + payload) != set_get(p, 8))
		return set_reader_damaged(r, err, "a block's checksum is wrong");
	if (!block_set_block_decode(p + SET_BLOCK_HEADER_SIZE, payload, r->granules, n, drawing,
				    block) ||
	    !in_sequence(r, block))
		return set_reader_damaged(r, err, "a block has impossible values");
	r->position += SET_BLOCK_HEADER_SIZE + payload;
	if (n != SET_BLOCK_EXTENTS && r->position != r->footer.index_offset)
		return set_reader_damaged(r, err, "a block in the middle is not full");
	r->exact = false;
	r->last_end = block->end;
	r->last_zero = block->last_zero;
	r->extents_walked += n;
	r->block_len = block->n;
	return 0;
}

/* Loads the next block; block_len is 0 at the end. The first run of a block is always
 * stored, so block_len is never 0 before. */
static int load_block(struct block_set_reader *r, const struct set_drawing *drawing,
		      struct cairn_err *err)
{
	static const struct set_drawing nothing;

	r->block_next = r->block_len = 0;
	if (r->position == r->footer.index_offset) {
		if (r->from_start && r->extents_walked != r->info.extents)
			return set_reader_damaged(r, err, "extents are missing");
		return 0;
	}
	if (!r->block) {
		r->block = cairn_calloc(1, sizeof(*r->block));
		if (!r->block)
			return r->failed = cairn_err_nomem(err, "change set block");
	}
	return decode_block(r, drawing ? drawing : &nothing, err);
}

static int set_reader_usable(const struct block_set_reader *r, struct cairn_err *err)
{
	if (r->failed)
		return cairn_err_set(err, r->failed, "reading the change set failed before");
	return 0;
}

int block_set_reader_peek(struct block_set_reader *r, const struct set_drawing *drawing,
			  const struct set_run **ret_runs, size_t *ret_n, struct cairn_err *err)
{
	int rc;

	rc = set_reader_usable(r, err);
	if (rc == 0 && r->block_next == r->block_len)
		rc = load_block(r, drawing, err);
	if (rc < 0)
		return rc;
	*ret_runs = r->block ? r->block->runs + r->block_next : NULL;
	*ret_n = r->block ? r->block_len - r->block_next : 0;
	return 0;
}

void block_set_reader_skip(struct block_set_reader *r, size_t n)
{
	r->block_next += (unsigned)n;
}

int block_set_reader_next(struct block_set_reader *r, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err)
{
	const struct set_run *runs;
	size_t n;
	int rc;

	rc = block_set_reader_peek(r, NULL, &runs, &n, err);
	if (rc < 0)
		return rc;
	if (n > max)
		n = max;
	for (size_t i = 0; i < n; i++)
		out[i] = set_run_extent(&runs[i], r->shift, r->info.volume_size);
	block_set_reader_skip(r, n);
	*ret_n = n;
	return 0;
}

/* Decodes the stored index into `index`; false if it is invalid. */
static bool decode_index(const struct block_set_reader *r, const uint8_t *p, const uint8_t *end,
			 struct set_index_entry *index)
{
	struct set_index_entry last = {0};

	for (uint32_t i = 0; i < r->footer.index_entries; i++) {
		uint64_t granule, offset;

		p = varint_get(p, &granule);
		if (p)
			p = varint_get(p, &offset);
		if (!p || p > end)
			return false;
		if (i == 0 ? offset != SET_HEADER_SIZE : granule == 0 || offset == 0)
			return false;
		last.granule += granule;
		last.offset += offset;
		if (last.granule >= r->granules || last.offset >= r->footer.index_offset)
			return false;
		index[i] = last;
	}
	return p == end;
}

static int set_reader_load_index(struct block_set_reader *r, struct cairn_err *err)
{
	size_t size = r->input.size - SET_FOOTER_SIZE - r->footer.index_offset;
	cairn_auto_free struct set_index_entry *index = NULL;
	cairn_auto_free uint8_t *bytes = NULL;
	int rc;

	if (r->index)
		return 0;
	index = cairn_calloc(r->footer.index_entries, sizeof(*index));
	bytes = cairn_calloc(1, size + 2 * VARINT_BYTES_MAX);
	if (!index || !bytes)
		return r->failed = cairn_err_nomem(err, "change set index");
	rc = r->input.read_at(r->input.arg, r->footer.index_offset, bytes, size, err);
	if (rc < 0)
		return r->failed = rc;
	if (block_checksum(bytes, size) != r->footer.index_checksum)
		return set_reader_damaged(r, err, "the index's checksum is wrong");
	if (!decode_index(r, bytes, bytes + size, index))
		return set_reader_damaged(r, err, "the index has impossible values");
	r->index = cairn_take(index);
	return 0;
}

/* Returns the last entry that begins at or before the granule; the first entry if none
 * does. */
static const struct set_index_entry *set_reader_find_entry(const struct block_set_reader *r,
							   uint64_t granule)
{
	const struct set_index_entry *entry = r->index;
	size_t n = r->footer.index_entries;

	while (n > 1) {
		size_t half = n / 2;

		entry = entry[half].granule <= granule ? entry + half : entry;
		n -= half;
	}
	return entry;
}

/* Returns the first run of the block that ends after the granule; there is one. */
static unsigned first_behind(const struct block_set_reader *r, uint64_t granule)
{
	unsigned low = 0, n = r->block_len;

	while (n > 1) {
		unsigned half = n / 2;
		const struct set_run *run = &r->block->runs[low + half - 1];

		if (run->start + (run->tail >> 1) < granule)
			low += half;
		n -= half;
	}
	return low;
}

int block_set_reader_seek(struct block_set_reader *r, uint64_t offset, struct cairn_err *err)
{
	const struct set_index_entry *entry;
	int rc;

	rc = set_reader_usable(r, err);
	if (rc < 0)
		return rc;
	rewind_reader(r);
	if (offset == 0 || r->info.extents == 0)
		return 0;
	r->from_start = false;
	if (offset >= r->info.volume_size) {
		r->position = r->footer.index_offset;
		return 0;
	}
	rc = set_reader_load_index(r, err);
	if (rc < 0)
		return rc;
	entry = set_reader_find_entry(r, offset >> r->shift);
	r->exact = true;
	r->position = entry->offset;
	r->last_end = entry->granule;
	r->refill = r->buffer_size < BUFFER_MIN ? r->buffer_size : BUFFER_MIN;
	do {
		rc = load_block(r, NULL, err);
		if (rc < 0 || r->block_len == 0)
			return rc;
	} while (r->last_end <= offset >> r->shift);
	r->block_next = first_behind(r, offset >> r->shift);
	return 0;
}

/* Checks that the index points to the block that was just read, if it has an entry for it. */
static bool index_agrees(const struct block_set_reader *r, uint64_t number, uint64_t offset)
{
	const struct set_index_entry *entry;

	if (number % r->footer.index_stride != 0)
		return true;
	entry = &r->index[number / r->footer.index_stride];
	return entry->offset == offset && entry->granule == r->block->start;
}

int block_set_verify(struct block_set_reader *r, struct cairn_err *err)
{
	uint64_t changed = 0, zero = 0, offset;
	int rc;

	rc = block_set_reader_seek(r, 0, err);
	if (rc == 0 && r->info.extents > 0)
		rc = set_reader_load_index(r, err);
	for (uint64_t number = 0; rc == 0; number++) {
		offset = r->position;
		rc = load_block(r, NULL, err);
		if (rc < 0 || r->block_len == 0)
			break;
		if (!index_agrees(r, number, offset))
			return set_reader_damaged(r, err, "the index is wrong");
		for (unsigned i = 0; i < r->block_len; i++) {
			struct block_extent e =
				set_run_extent(&r->block->runs[i], r->shift, r->info.volume_size);

			changed += e.length;
			zero += e.zero ? e.length : 0;
		}
	}
	if (rc < 0)
		return rc;
	if (changed != r->info.changed_bytes || zero != r->info.zero_bytes)
		return set_reader_damaged(r, err, "the counts in the footer are wrong");
	return 0;
}
