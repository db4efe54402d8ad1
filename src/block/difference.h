/* SPDX-License-Identifier: Apache-2.0 */

/* Streams the ranges that are in one change set and not in another, in order.
 *
 * Ranges keep the zero flag of the first set; the second set's flags are ignored. Sets of
 * different granularity are split where their granules meet. Both readers may have been
 * positioned with a seek. Belongs to one thread at a time.
 */
#ifndef CAIRN_BLOCK_DIFFERENCE_H
#define CAIRN_BLOCK_DIFFERENCE_H

#include <stddef.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct block_difference;
struct block_set_reader;
struct cairn_err;

/* Takes ownership of both readers, also on failure. */
int block_difference_new(struct block_set_reader *from, struct block_set_reader *without,
			 struct block_difference **ret, struct cairn_err *err);
void block_difference_free(struct block_difference *difference);
CAIRN_DEFINE_CLEANUP(struct block_difference, block_difference_free);

/* Returns up to `max` extents, ascending and not overlapping; *ret_n == 0 is the end.
 * After an error the object must not be used further. */
int block_difference_next(struct block_difference *difference, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err);

#endif
