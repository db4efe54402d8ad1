/* SPDX-License-Identifier: Apache-2.0 */

/* Which granules of a volume are marked, and which of those read as zeros.
 *
 * A backup walks over the changes several times: to choose chunk sizes, to plan,
 * and to count. A change list can have ten million extents, so it is converted
 * to two bitmaps once. A granule is 4 KiB, or larger if the bitmaps would exceed
 * MARKS_GRANULES_MAX bits: memory is bounded whatever the volume's size.
 *
 * Marking widens to whole granules; "zero" is kept only for granules that are
 * zero as a whole. Not thread-safe while it is filled; afterwards any number of
 * threads may read it.
 */
#ifndef CAIRN_BACKUP_MARKS_H
#define CAIRN_BACKUP_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct block_extent;
struct cairn_err;

#define MARKS_GRANULE_MIN  4096U
#define MARKS_GRANULES_MAX (1ULL << 28) /* 32 MiB a bitmap */

struct changed_bitmap {
	uint64_t size;    /* of the volume */
	unsigned shift;   /* log2 of the granule */
	uint64_t *marked; /* one bit per granule */
	uint64_t *zero;   /* never set where `marked` is not */
	uint64_t bytes;   /* sum of the extents that were added */
};

/* CAIRN_NO_SPACE  out of memory */
int backup_changed_bitmap_new(uint64_t size, struct changed_bitmap **ret, struct cairn_err *err);
void backup_changed_bitmap_free(struct changed_bitmap *marks);
CAIRN_DEFINE_CLEANUP(struct changed_bitmap, backup_changed_bitmap_free);

/* Adds an extent, overriding earlier ones; the part past the volume is
 * dropped. */
void backup_changed_bitmap_add(struct changed_bitmap *marks, const struct block_extent *extent);

/* Marks everything in [from, size) that is not marked yet, as not known to be
 * zero. */
void backup_changed_bitmap_fill_from(struct changed_bitmap *marks, uint64_t from);

struct backup_changed_bitmap_count {
	uint64_t granules;
	uint64_t marked;
	uint64_t zero;
};

/* Counts the granules that [offset, offset + length) touches. */
struct backup_changed_bitmap_count backup_changed_bitmap_count(const struct changed_bitmap *marks,
							       uint64_t offset, uint64_t length);

/* True if any granule there is marked; cheaper than counting. */
bool backup_changed_bitmap_any(const struct changed_bitmap *marks, uint64_t offset,
			       uint64_t length);

#endif
