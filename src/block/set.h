/* SPDX-License-Identifier: Apache-2.0 */

/* A change set: the ranges of a volume that differ between two snapshots, and which of
 * those now read as zeros.
 *
 * Sets are written once, in ascending order, and read many times from any offset, so the
 * stored form is a sequence of blocks of up to 256 extents. An extent is two varints: the
 * gap since the end of the last one, and its length with the zero flag in the lowest bit,
 * both in units of the granularity. A single granule that is not zero, the most frequent
 * result of random writes, is one varint. Each block has its own checksum, so a reader can
 * stream without trusting unchecked data, and a skip index (with its own checksum) finds
 * any offset with a binary search. man/cairn-changeset.5 describes the format.
 *
 * Input and output are bytes from and to callbacks; there is no descriptor here. Readers
 * and writers belong to one thread at a time.
 *
 * Rounding guarantees that no change is missed: a changed range is widened to whole
 * granules, while "zero" is kept only for granules that are entirely zero. The last
 * granule may extend past the end of the volume; extents are clipped to the volume size.
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

/* Largest volume that a set can describe: offsets must fit int64, as in every API that
 * carries them. */
#define BLOCK_VOLUME_SIZE_MAX ((uint64_t)INT64_MAX)

struct block_set_info {
	uint64_t volume_size; /* of the newer snapshot */
	uint64_t base_size;   /* of the older one */
	uint32_t granularity; /* a power of two */
	uint64_t extents;
	uint64_t changed_bytes;
	uint64_t zero_bytes; /* part of changed_bytes */
};

/* Receives the encoded bytes, in order. */
struct block_output {
	int (*write)(void *arg, const void *data, size_t n, struct cairn_err *err);
	void *arg;
};

/* Supplies the encoded bytes. It must deliver exactly `n` bytes, or an error. */
struct block_input {
	int (*read_at)(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err);
	void *arg;
	uint64_t size; /* of the stored set in bytes */
};

/* Starts a set with the sizes and granularity in `info`; its counts are ignored.
 *
 * CAIRN_INVALID  granularity is not a power of two within the limits, or a size
 *                is above BLOCK_VOLUME_SIZE_MAX
 */
int block_set_writer_new(const struct block_set_info *info, struct block_output output,
			 struct block_set_writer **ret, struct cairn_err *err);
void block_set_writer_free(struct block_set_writer *writer);
CAIRN_DEFINE_CLEANUP(struct block_set_writer, block_set_writer_free);

/* Adds a range in bytes, with any alignment, which must not begin before the end of the
 * last one. Adjacent ranges of the same kind are merged. The part past the volume size is
 * dropped.
 *
 * CAIRN_INVALID  length is 0, the range wraps or is out of order
 */
int block_set_writer_add(struct block_set_writer *writer, const struct block_extent *extent,
			 struct cairn_err *err);

/* A sink that adds to the writer. */
struct block_sink block_set_writer_sink(struct block_set_writer *writer);

/* Writes the last block, the skip index and the footer. Afterwards the writer can only be
 * freed. `ret_info` may be NULL. */
int block_set_writer_finish(struct block_set_writer *writer, struct block_set_info *ret_info,
			    struct cairn_err *err);

/* Opens a stored set: reads and checks the header and the footer, not the blocks.
 * `buffer_size` limits the bytes of one read (0 selects the default).
 *
 * CAIRN_DATA_LOSS      not a change set, truncated, or a checksum is wrong
 * CAIRN_UNIMPLEMENTED  written by a newer version of the format
 */
int block_set_reader_new(struct block_input input, size_t buffer_size,
			 struct block_set_reader **ret, struct cairn_err *err);
void block_set_reader_free(struct block_set_reader *reader);
CAIRN_DEFINE_CLEANUP(struct block_set_reader, block_set_reader_free);

const struct block_set_info *block_set_reader_info(const struct block_set_reader *reader);

/* Makes the next extent the first one that ends after `offset`; its front is not clipped. */
int block_set_reader_seek(struct block_set_reader *reader, uint64_t offset, struct cairn_err *err);

/* Returns up to `max` extents; *ret_n == 0 is the end of the set.
 *
 * CAIRN_DATA_LOSS  a block's checksum is wrong, or its contents are impossible
 */
int block_set_reader_next(struct block_set_reader *reader, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err);

/* Reads the whole set and compares it with the counts in the footer. */
int block_set_verify(struct block_set_reader *reader, struct cairn_err *err);

#endif
