/* SPDX-License-Identifier: Apache-2.0 */

/* What is in one change set and not in another, streamed in order.
 *
 * Ranges keep the zero flag that the first set gives them; the second set's
 * flags do not matter. Two sets of different granularity are cut where their
 * granules meet. Both readers may have been moved with a seek. Belongs to one
 * thread at a time.
 */
#ifndef CAIRN_BLOCK_DIFFERENCE_H
#define CAIRN_BLOCK_DIFFERENCE_H

#include <stddef.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct block_difference;
struct block_set_reader;
struct cairn_err;

/* Takes both readers over, also when it fails. */
int block_difference_new(struct block_set_reader *from, struct block_set_reader *without,
			 struct block_difference **ret, struct cairn_err *err);
void block_difference_free(struct block_difference *difference);
CAIRN_DEFINE_CLEANUP(struct block_difference, block_difference_free);

/* Delivers up to `max` extents, ascending and not overlapping; *ret_n == 0 is
 * the end. An error is final. */
int block_difference_next(struct block_difference *difference, struct block_extent *out, size_t max,
			  size_t *ret_n, struct cairn_err *err);

#endif
