/* SPDX-License-Identifier: Apache-2.0 */

/* The stored form of a change set, shared by its writer and its reader.
 * man/cairn-changeset.5 describes it; change both together.
 */
#ifndef CAIRN_BLOCK_SET_FORMAT_H
#define CAIRN_BLOCK_SET_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "block/set.h"
#include "block/varint.h"

struct cairn_err;

#define SET_VERSION 1U

#define SET_HEADER_SIZE 40U
#define SET_FOOTER_SIZE 80U

/* A block: checksum of the bytes that follow, length of the payload, number of extents
 * minus one; then the payload. */
#define SET_BLOCK_EXTENTS     256U
#define SET_BLOCK_HEADER_SIZE 11U
#define SET_BLOCK_PAYLOAD_MAX (SET_BLOCK_EXTENTS * 2U * VARINT_BYTES_MAX)
#define SET_BLOCK_SIZE_MAX    (SET_BLOCK_HEADER_SIZE + SET_BLOCK_PAYLOAD_MAX)

/* Limit of the entries of a skip index. One entry stands for `stride` blocks, a power of
 * two; the writer doubles it whenever the index is full, so that the index never exceeds
 * this, however long the set is. */
#define SET_INDEX_MAX 8192U

struct set_index_entry {
	uint64_t granule; /* first of the block */
	uint64_t offset;  /* of the block in the file */
};

/* An extent in granules, as a block stores it. */
struct set_run {
	uint64_t start;
	uint64_t tail; /* (length - 1) << 1 | zero; 0 is a single granule, not zero */
};

struct set_header {
	uint64_t volume_size;
	uint64_t base_size;
	uint32_t granularity;
	uint64_t checksum; /* filled by both functions below */
};

struct set_footer {
	uint64_t extents;
	uint64_t changed_bytes;
	uint64_t zero_bytes;
	uint64_t blocks;
	uint64_t index_offset; /* where the blocks end */
	uint32_t index_entries;
	uint32_t index_stride;
	uint64_t index_checksum;
	uint64_t header_checksum;
};

/* CAIRN_INVALID when granularity or a size is outside the limits of set.h. */
int block_set_header_check(const struct set_header *header, struct cairn_err *err);

void block_set_header_encode(struct set_header *header, uint8_t out[SET_HEADER_SIZE]);
int block_set_header_decode(const uint8_t in[SET_HEADER_SIZE], struct set_header *ret,
			    struct cairn_err *err);

void block_set_footer_encode(const struct set_footer *footer, uint8_t out[SET_FOOTER_SIZE]);

/* Also checks the numbers against each other, the header and the size of the file: decoded
 * values are safe to compute with. */
int block_set_footer_decode(const uint8_t in[SET_FOOTER_SIZE], const struct set_header *header,
			    uint64_t file_size, struct set_footer *ret, struct cairn_err *err);

/* A bitmap into which the decoder may draw single granules that are not zero, instead of
 * storing them as runs. This saves storing and reading them again. */
struct set_drawing {
	uint64_t *words;
	uint64_t start; /* granule of the first bit */
	uint64_t end;   /* granule after the last bit; <= start: draw nothing */
};

/* A decoded block. */
struct set_block {
	unsigned n; /* runs stored, without drawn ones */
	uint64_t start;
	uint64_t end; /* granule after the last run */
	bool first_zero;
	bool last_zero;
	struct set_run runs[SET_BLOCK_EXTENTS];
};

/* Decodes the `n` runs (1 to SET_BLOCK_EXTENTS) of a block's payload. False if the payload
 * is not exactly their canonical form, or a run extends past `granules`; bits may have
 * been drawn then. SET_DECODE_SLACK bytes after the payload must be readable. */
#define SET_DECODE_SLACK (4 * VARINT_BYTES_MAX)
bool block_set_block_decode(const uint8_t *p, size_t n_bytes, uint64_t granules, unsigned n,
			    const struct set_drawing *drawing, struct set_block *ret);

/* Granules of a volume, including a partial one at its end. */
static inline uint64_t set_granules(uint64_t volume_size, unsigned shift)
{
	return (volume_size + (1ULL << shift) - 1) >> shift;
}

/* Integers are stored in little-endian order. */
static inline uint64_t set_get(const uint8_t *p, unsigned bytes)
{
	uint64_t value = 0;

	/* Compilers turn this into a single load where they can. */
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << (8 * i);
	return value;
}

static inline void set_put(uint8_t *p, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

#endif
