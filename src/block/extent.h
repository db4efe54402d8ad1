/* SPDX-License-Identifier: Apache-2.0 */

/* A byte range of a volume, and the consumer of a sequence of them.
 *
 * `zero` means that the whole range reads as zeros according to the storage map; false
 * only means "not known to be zero".
 */
#ifndef CAIRN_BLOCK_EXTENT_H
#define CAIRN_BLOCK_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

struct block_extent {
	uint64_t offset;
	uint64_t length; /* never 0 */
	bool zero;
};

/* Receives extents one at a time, ascending and not overlapping; adjacent ones are
 * allowed. A negative return value stops the producer, which returns it. */
struct block_sink {
	int (*emit)(void *arg, const struct block_extent *extent, struct cairn_err *err);
	void *arg;
};

static inline uint64_t block_extent_end(const struct block_extent *extent)
{
	return extent->offset + extent->length;
}

#endif
