/* SPDX-License-Identifier: Apache-2.0 */

#include "block/set.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "block/set_format.h"

/* What one refill reads: too little costs calls, too much costs memory for each
 * of a hundred sets in a union. After a seek the first refill is small and the
 * following ones double, since often a single block is wanted. */
#define BUFFER_DEFAULT 32768U
#define BUFFER_MIN     4352U /* any block fits */
#define BUFFER_MAX     (16U << 20)

/* The decoder may look this far behind a block before it notices its end. */
#define BUFFER_SLACK (4 * VARINT_BYTES_MAX)

_Static_assert(BUFFER_MIN >= SET_BLOCK_SIZE_MAX, "a block must fit into the smallest buffer");

struct block_set_reader {
	struct block_input input;
	struct block_set_info info;
	struct set_footer footer;
	unsigned shift;
	uint64_t granules; /* of the volume */
	int failed;        /* code of the first failure; final */

	uint64_t position;       /* file offset of the next block */
	uint64_t last_end;       /* granule behind the last extent of the block before, or where
				  * the index says that the next block begins */
	bool last_zero;          /* its kind */
	bool exact;              /* the next block begins at last_end (it was sought) */
	bool from_start;         /* every block was walked, so the count must be right */
	uint64_t extents_walked; /* for that */

	/* Extents of the current block that were not delivered yet; memory is
	 * taken when it is needed. */
	struct block_extent *block;
	unsigned block_next;
	unsigned block_len;

	uint8_t *buffer; /* buffer_size + BUFFER_SLACK bytes */
	size_t buffer_size;
	uint64_t buffer_offset; /* file offset of its first byte */
	size_t buffer_len;
	size_t refill; /* what the next refill reads */

	struct set_index_entry *index; /* loaded by the first seek */
};

static int damaged(struct block_set_reader *r, struct cairn_err *err, const char *what)
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
		rc = set_header_decode(header_bytes, &header, err);
	if (rc == 0)
		rc = in->read_at(in->arg, in->size - SET_FOOTER_SIZE, footer_bytes,
				 sizeof(footer_bytes), err);
	if (rc == 0)
		rc = set_footer_decode(footer_bytes, &header, in->size, &r->footer, err);
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
	/* A small set is read at once and needs no more than its own size. */
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
static int fetch(struct block_set_reader *r, size_t n, const uint8_t **ret, struct cairn_err *err)
{
	uint64_t left = r->footer.index_offset - r->position;
	size_t want = r->refill;
	int rc;

	if (n > left)
		return damaged(r, err, "a block passes the end of the blocks");
	if (r->position >= r->buffer_offset &&
	    r->position - r->buffer_offset + n <= r->buffer_len) {
		*ret = r->buffer + (r->position - r->buffer_offset);
		return 0;
	}
	if (!r->buffer) {
		r->buffer = cairn_calloc(1, r->buffer_size + BUFFER_SLACK);
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

/* Decodes `n` extents from the payload [p, end) into `out`. Whether they are
 * possible is gathered in one flag, so that the loop has nothing to guess
 * wrong; nothing is believed before the flag was looked at. */
static bool decode_extents(const struct block_set_reader *r, const uint8_t *p, const uint8_t *end,
			   unsigned n, struct block_extent *out)
{
	uint64_t at = 0;
	bool zero = false, bad = false;

	for (unsigned i = 0; i < n; i++) {
		uint64_t head, tail = 0, start;
		bool was_zero = zero;

		p = varint_get(p, &head);
		if (!p)
			return false;
		if (head & 1) {
			p = varint_get(p, &tail);
			if (!p)
				return false;
			bad |= tail == 0;
		}
		if (p > end)
			return false;
		zero = tail & 1;
		start = at + (head >> 1);
		bad |= start == at && zero == was_zero && i > 0;
		at = start + (tail >> 1) + 1;
		out[i].offset = start << r->shift;
		out[i].length = ((tail >> 1) + 1) << r->shift;
		out[i].zero = zero;
		bad |= at > r->granules;
	}
	return !bad && p == end;
}

/* The block follows what came before it. */
static bool in_sequence(const struct block_set_reader *r, const struct block_extent *first)
{
	uint64_t start = first->offset >> r->shift;

	if (r->exact)
		return start == r->last_end;
	if (r->position == SET_HEADER_SIZE)
		return true;
	return start > r->last_end || (start == r->last_end && first->zero != r->last_zero);
}

/* Reads the next block into `out`, which has room for SET_BLOCK_EXTENTS;
 * *ret_n == 0 at the end. */
static int next_block(struct block_set_reader *r, struct block_extent *out, unsigned *ret_n,
		      struct cairn_err *err)
{
	struct block_extent *last;
	const uint8_t *p;
	size_t payload;
	unsigned n;
	int rc;

	if (r->position == r->footer.index_offset) {
		if (r->from_start && r->extents_walked != r->info.extents)
			return damaged(r, err, "extents are missing");
		*ret_n = 0;
		return 0;
	}
	rc = fetch(r, SET_BLOCK_HEADER_SIZE, &p, err);
	if (rc < 0)
		return rc;
	payload = set_get(p + 8, 2);
	n = p[10] + 1U;
	if (payload > SET_BLOCK_PAYLOAD_MAX)
		return damaged(r, err, "a block is too long");
	rc = fetch(r, SET_BLOCK_HEADER_SIZE + payload, &p, err);
	if (rc < 0)
		return rc;
	if (block_checksum(p + 8, SET_BLOCK_HEADER_SIZE - 8 + payload) != set_get(p, 8))
		return damaged(r, err, "a block's checksum is wrong");
	p += SET_BLOCK_HEADER_SIZE;
	if (!decode_extents(r, p, p + payload, n, out) || !in_sequence(r, out))
		return damaged(r, err, "a block says the impossible");
	r->position += SET_BLOCK_HEADER_SIZE + payload;
	if (n != SET_BLOCK_EXTENTS && r->position != r->footer.index_offset)
		return damaged(r, err, "a block in the middle is not full");

	last = &out[n - 1];
	r->exact = false;
	r->last_end = block_extent_end(last) >> r->shift;
	r->last_zero = last->zero;
	r->extents_walked += n;
	if (block_extent_end(last) > r->info.volume_size)
		last->length = r->info.volume_size - last->offset;
	*ret_n = n;
	return 0;
}

/* Reads the next block into the reader's own memory. */
static int load_block(struct block_set_reader *r, struct cairn_err *err)
{
	unsigned n;
	int rc;

	if (!r->block) {
		r->block = cairn_calloc(SET_BLOCK_EXTENTS, sizeof(*r->block));
		if (!r->block)
			return r->failed = cairn_err_nomem(err, "change set block");
	}
	r->block_next = r->block_len = 0;
	rc = next_block(r, r->block, &n, err);
	if (rc < 0)
		return rc;
	r->block_len = n;
	return 0;
}

static int usable(const struct block_set_reader *r, struct cairn_err *err)
{
	if (r->failed)
		return cairn_err_set(err, r->failed, "reading the change set failed before");
	return 0;
}

int block_set_reader_next(struct block_set_reader *r, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err)
{
	unsigned n;
	int rc;

	rc = usable(r, err);
	if (rc < 0)
		return rc;
	if (r->block_next == r->block_len && max >= SET_BLOCK_EXTENTS) {
		rc = next_block(r, out, &n, err);
		if (rc < 0)
			return rc;
		*ret_n = n;
		return 0;
	}
	if (r->block_next == r->block_len) {
		rc = load_block(r, err);
		if (rc < 0)
			return rc;
	}
	n = r->block_len - r->block_next;
	if (n > max)
		n = (unsigned)max;
	if (n > 0)
		memcpy(out, r->block + r->block_next, n * sizeof(*out));
	r->block_next += n;
	*ret_n = n;
	return 0;
}

/* Fills `index` from its stored form; false when that is impossible. */
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

static int load_index(struct block_set_reader *r, struct cairn_err *err)
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
		return damaged(r, err, "the index's checksum is wrong");
	if (!decode_index(r, bytes, bytes + size, index))
		return damaged(r, err, "the index says the impossible");
	r->index = cairn_take(index);
	return 0;
}

/* The last entry that begins at or before the granule; the first one when none
 * does. */
static const struct set_index_entry *find_entry(const struct block_set_reader *r, uint64_t granule)
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

int block_set_reader_seek(struct block_set_reader *r, uint64_t offset, struct cairn_err *err)
{
	const struct set_index_entry *entry;
	int rc;

	rc = usable(r, err);
	if (rc < 0)
		return rc;
	rewind_reader(r);
	if (offset == 0 || r->info.extents == 0)
		return 0;
	rc = load_index(r, err);
	if (rc < 0)
		return rc;
	entry = find_entry(r, offset >> r->shift);
	r->from_start = false;
	r->exact = true;
	r->position = entry->offset;
	r->last_end = entry->granule;
	r->refill = r->buffer_size < BUFFER_MIN ? r->buffer_size : BUFFER_MIN;
	do {
		rc = load_block(r, err);
		if (rc < 0 || r->block_len == 0)
			return rc;
	} while (block_extent_end(&r->block[r->block_len - 1]) <= offset);
	while (block_extent_end(&r->block[r->block_next]) <= offset)
		r->block_next++;
	return 0;
}

int block_set_verify(struct block_set_reader *r, struct cairn_err *err)
{
	struct block_set_info seen = {0};
	int rc;

	rc = block_set_reader_seek(r, 0, err);
	if (rc == 0 && r->info.extents > 0)
		rc = load_index(r, err);
	while (rc == 0) {
		rc = load_block(r, err);
		if (rc < 0 || r->block_len == 0)
			break;
		for (unsigned i = 0; i < r->block_len; i++) {
			seen.changed_bytes += r->block[i].length;
			seen.zero_bytes += r->block[i].zero ? r->block[i].length : 0;
		}
	}
	if (rc < 0)
		return rc;
	if (seen.changed_bytes != r->info.changed_bytes || seen.zero_bytes != r->info.zero_bytes)
		return damaged(r, err, "the counts in the footer are wrong");
	return 0;
}
