/* SPDX-License-Identifier: Apache-2.0 */

#include "block/set_format.h"

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "block/checksum.h"

#define MAGIC     "CRNCBT"
#define MAGIC_LEN 6U
#define END_MAGIC "CRNCBEND"

static bool is_power_of_two(uint64_t n)
{
	return n != 0 && (n & (n - 1)) == 0;
}

int block_set_header_check(const struct set_header *header, struct cairn_err *err)
{
	if (!is_power_of_two(header->granularity) || header->granularity < BLOCK_GRANULARITY_MIN ||
	    header->granularity > BLOCK_GRANULARITY_MAX)
		return cairn_err_set(err, CAIRN_INVALID,
				     "granularity %" PRIu32 " is not a power of two from %u to %u",
				     header->granularity, BLOCK_GRANULARITY_MIN,
				     BLOCK_GRANULARITY_MAX);
	if (header->volume_size > BLOCK_VOLUME_SIZE_MAX ||
	    header->base_size > BLOCK_VOLUME_SIZE_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "volume size is above 2^63 - 1");
	return 0;
}

void block_set_header_encode(struct set_header *header, uint8_t out[SET_HEADER_SIZE])
{
	memcpy(out, MAGIC, MAGIC_LEN);
	set_put(out + 6, SET_VERSION, 2);
	set_put(out + 8, header->granularity, 4);
	set_put(out + 12, 0, 4);
	set_put(out + 16, header->volume_size, 8);
	set_put(out + 24, header->base_size, 8);
	header->checksum = block_checksum(out, 32);
	set_put(out + 32, header->checksum, 8);
}

int block_set_header_decode(const uint8_t in[SET_HEADER_SIZE], struct set_header *ret,
			    struct cairn_err *err)
{
	struct set_header header = {
		.granularity = (uint32_t)set_get(in + 8, 4),
		.volume_size = set_get(in + 16, 8),
		.base_size = set_get(in + 24, 8),
		.checksum = set_get(in + 32, 8),
	};

	if (memcmp(in, MAGIC, MAGIC_LEN) != 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "not a change set");
	/* Before the checksum, which a newer version may store elsewhere. */
	if (set_get(in + 6, 2) != SET_VERSION)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "change set has format version %u, this program supports %u",
				     (unsigned)set_get(in + 6, 2), SET_VERSION);
	if (block_checksum(in, 32) != header.checksum)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "change set header is damaged");
	if (set_get(in + 12, 4) != 0 || block_set_header_check(&header, NULL) != 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "change set header has impossible values");
	*ret = header;
	return 0;
}

void block_set_footer_encode(const struct set_footer *footer, uint8_t out[SET_FOOTER_SIZE])
{
	set_put(out, footer->extents, 8);
	set_put(out + 8, footer->changed_bytes, 8);
	set_put(out + 16, footer->zero_bytes, 8);
	set_put(out + 24, footer->blocks, 8);
	set_put(out + 32, footer->index_offset, 8);
	set_put(out + 40, footer->index_entries, 4);
	set_put(out + 44, footer->index_stride, 4);
	set_put(out + 48, footer->index_checksum, 8);
	set_put(out + 56, footer->header_checksum, 8);
	set_put(out + 64, block_checksum(out, 64), 8);
	memcpy(out + 72, END_MAGIC, 8);
}

/* Checks that the counts fit each other and the volume. */
static bool counts_possible(const struct set_footer *f, const struct set_header *h)
{
	uint64_t granules = set_granules(h->volume_size, (unsigned)__builtin_ctz(h->granularity));

	return f->extents <= granules && f->changed_bytes <= h->volume_size &&
	       f->zero_bytes <= f->changed_bytes && (f->extents == 0) == (f->changed_bytes == 0) &&
	       f->blocks == (f->extents + SET_BLOCK_EXTENTS - 1) / SET_BLOCK_EXTENTS;
}

/* Returns the smallest stride with which the index is not too long. */
static uint64_t index_stride_of(uint64_t blocks)
{
	uint64_t stride = 1;

	while (blocks > stride * SET_INDEX_MAX)
		stride *= 2;
	return stride;
}

/* Checks that blocks, index and footer fill the file. */
static bool layout_possible(const struct set_footer *f, uint64_t file_size)
{
	uint64_t index_end = file_size - SET_FOOTER_SIZE;
	uint64_t blocks_size;

	if (f->index_offset < SET_HEADER_SIZE || f->index_offset > index_end)
		return false;
	if (f->index_stride != index_stride_of(f->blocks) ||
	    f->index_entries != (f->blocks + f->index_stride - 1) / f->index_stride)
		return false;
	blocks_size = f->index_offset - SET_HEADER_SIZE;
	return blocks_size >= f->blocks * SET_BLOCK_HEADER_SIZE + f->extents &&
	       blocks_size <= f->blocks * SET_BLOCK_SIZE_MAX &&
	       index_end - f->index_offset >= 2 * (uint64_t)f->index_entries &&
	       index_end - f->index_offset <= 2 * (uint64_t)f->index_entries * VARINT_BYTES_MAX;
}

int block_set_footer_decode(const uint8_t in[SET_FOOTER_SIZE], const struct set_header *header,
			    uint64_t file_size, struct set_footer *ret, struct cairn_err *err)
{
	struct set_footer footer = {
		.extents = set_get(in, 8),
		.changed_bytes = set_get(in + 8, 8),
		.zero_bytes = set_get(in + 16, 8),
		.blocks = set_get(in + 24, 8),
		.index_offset = set_get(in + 32, 8),
		.index_entries = (uint32_t)set_get(in + 40, 4),
		.index_stride = (uint32_t)set_get(in + 44, 4),
		.index_checksum = set_get(in + 48, 8),
		.header_checksum = set_get(in + 56, 8),
	};

	if (memcmp(in + 72, END_MAGIC, 8) != 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "change set is cut off");
	if (block_checksum(in, 64) != set_get(in + 64, 8))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "change set footer is damaged");
	if (footer.header_checksum != header->checksum || !counts_possible(&footer, header) ||
	    !layout_possible(&footer, file_size))
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "change set footer has impossible values");
	*ret = footer;
	return 0;
}
