/* SPDX-License-Identifier: Apache-2.0 */

/* Clones a file of very many extents without blocking its writers for long.
 *
 * FICLONE takes 10 to 20 us per extent on XFS and blocks all writes to the file meanwhile.
 * So the file is first cloned piece by piece while it is in use, and writers wait for one
 * piece at most. Later, with writers stopped, both extent maps are compared, which takes 2
 * to 3 us per extent, and the differing ranges are cloned again. The clone holds a
 * reference on its blocks, so the same block at the same offset was not written since.
 * docs/decisions/022 has the measurements.
 */
#ifndef CAIRN_POOL_REFLINK_TWOSTEP_H
#define CAIRN_POOL_REFLINK_TWOSTEP_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* With fewer extents one FICLONE is short enough. */
#define TWOSTEP_EXTENTS_MIN 4096U

/* True if the file has at least `min` extents. */
int reflink_twostep_is_worth(int from, uint64_t min, bool *ret_worth, struct cairn_err *err);

/* The first step: fills the empty file `to` with clones of pieces of `from`, each
 * of a different moment. */
int reflink_twostep_begin(int from, int to, struct cairn_err *err);

/* The second step: `to` becomes a copy of `from` at one moment. *ret_done is false when
 * the file was written meanwhile; `to` is then still inconsistent. */
int reflink_twostep_end(int from, int to, bool *ret_done, struct cairn_err *err);

#endif
