/* SPDX-License-Identifier: Apache-2.0 */

/* A change set: which ranges of a volume one snapshot changed against another,
 * and which of those now read as zeros.
 *
 * Sets are written once, in ascending order, and read many times from any
 * offset, so the stored form is a run of blocks of up to 256 extents. An
 * extent is two varints: the gap since the last one ends, and its length with
 * the zero flag in the lowest bit, both in units of the granularity; what random
 * writes leave most often, a single granule that is not zero, is one varint. Each
 * block carries its own checksum, so a reader streams without trusting what it
 * has not checked, and a skip index (one entry a block, itself checksummed)
 * finds any offset with a binary search. man/cairn-changeset.5 is the format.
 *
 * Input is bytes from a callback and output is bytes to one: no descriptor is
 * in here. Readers and writers belong to one thread at a time.
 *
 * Rounding keeps the promise that a change is never missed: a changed range is
 * widened to whole granules, while "zero" is kept only for granules that are
 * zero as a whole. The end of the volume may cut the last granule; extents are
 * reported clipped to the volume size.
 */
#ifndef CAIRN_BLOCK_SET_H
#define CAIRN_BLOCK_SET_H

#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct cairn_err;
struct block_set_reader;
struct block_set_writer;

#define BLOCK_GRANULARITY_MIN     512U
#define BLOCK_GRANULARITY_DEFAULT 4096U
#define BLOCK_GRANULARITY_MAX     (64U << 20)

/* Largest volume that a set can describe: offsets stay within int64, as every
 * API that carries them asks. */
#define BLOCK_VOLUME_SIZE_MAX ((uint64_t)INT64_MAX)

struct block_set_info {
	uint64_t volume_size; /* of the newer snapshot */
	uint64_t base_size;   /* of the older one */
	uint32_t granularity; /* a power of two */
	uint64_t extents;
	uint64_t changed_bytes;
	uint64_t zero_bytes; /* part of changed_bytes */
};

/* Where the encoded bytes go, in order. */
struct block_output {
	int (*write)(void *arg, const void *data, size_t n, struct cairn_err *err);
	void *arg;
};

/* Where they come from. Exactly `n` bytes must be delivered, or an error. */
struct block_input {
	int (*read_at)(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err);
	void *arg;
	uint64_t size; /* of the stored set in bytes */
};

/* Starts a set. `info` gives sizes and granularity; its counts are ignored.
 *
 * CAIRN_INVALID  granularity is no power of two within the limits, or a size
 *                is above BLOCK_VOLUME_SIZE_MAX
 */
int block_set_writer_new(const struct block_set_info *info, struct block_output output,
			 struct block_set_writer **ret, struct cairn_err *err);
void block_set_writer_free(struct block_set_writer *writer);
CAIRN_DEFINE_CLEANUP(struct block_set_writer, block_set_writer_free);

/* Adds a range that is not before the end of the last one (bytes, any
 * alignment). Touching ranges of the same kind become one. The part past the
 * volume size is dropped.
 *
 * CAIRN_INVALID  length is 0, the range wraps or is out of order
 */
int block_set_writer_add(struct block_set_writer *writer, const struct block_extent *extent,
			 struct cairn_err *err);

/* A sink that adds to the writer. */
struct block_sink block_set_writer_sink(struct block_set_writer *writer);

/* Writes what is left: last block, skip index, footer. After this only free.
 * `ret_info` may be NULL. */
int block_set_writer_finish(struct block_set_writer *writer, struct block_set_info *ret_info,
			    struct cairn_err *err);

/* Opens a stored set: reads and checks its ends, not the blocks. `buffer_size`
 * bounds what one refill reads (0 for a good default).
 *
 * CAIRN_DATA_LOSS      not a change set, truncated, or a checksum is wrong
 * CAIRN_UNIMPLEMENTED  written by a newer version of the format
 */
int block_set_reader_new(struct block_input input, size_t buffer_size,
			 struct block_set_reader **ret, struct cairn_err *err);
void block_set_reader_free(struct block_set_reader *reader);
CAIRN_DEFINE_CLEANUP(struct block_set_reader, block_set_reader_free);

const struct block_set_info *block_set_reader_info(const struct block_set_reader *reader);

/* The next extent delivered is the first that ends after `offset`; it is not
 * clipped at its front. */
int block_set_reader_seek(struct block_set_reader *reader, uint64_t offset, struct cairn_err *err);

/* Delivers up to `max` extents; *ret_n == 0 is the end of the set.
 *
 * CAIRN_DATA_LOSS  a block's checksum is wrong, or what it says is impossible
 */
int block_set_reader_next(struct block_set_reader *reader, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err);

/* Reads everything once and compares it with the counts in the footer. */
int block_set_verify(struct block_set_reader *reader, struct cairn_err *err);

#endif
