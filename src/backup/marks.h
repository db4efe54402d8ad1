/* SPDX-License-Identifier: Apache-2.0 */

/* Which granules of a volume are marked, and which of those read as zeros.
 *
 * A backup looks at what changed several times: to choose how fine it cuts, to
 * plan, and to count. A change list can be ten million extents long, so it is
 * drawn into two bitmaps once. A granule is 4 KiB, and larger on volumes where
 * the bitmaps would pass MARKS_GRANULES_MAX bits: memory is bounded whatever the
 * volume's size.
 *
 * Marking widens to whole granules; "zero" is kept only for granules that are
 * zero as a whole. Not thread-safe while it is drawn; many may read it then.
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

struct marks {
	uint64_t size;    /* of the volume */
	unsigned shift;   /* log2 of the granule */
	uint64_t *marked; /* a bit a granule */
	uint64_t *zero;   /* never set where `marked` is not */
	uint64_t bytes;   /* sum of the extents that were drawn */
};

/* CAIRN_NO_SPACE  out of memory */
int marks_new(uint64_t size, struct marks **ret, struct cairn_err *err);
void marks_free(struct marks *marks);
CAIRN_DEFINE_CLEANUP(struct marks, marks_free);

/* Draws an extent over what is there; the part past the volume is dropped. */
void marks_add(struct marks *marks, const struct block_extent *extent);

/* Marks, as not known to be zero, what of [from, size) is not marked yet. */
void marks_fill_from(struct marks *marks, uint64_t from);

struct marks_count {
	uint64_t granules;
	uint64_t marked;
	uint64_t zero;
};

/* Of the granules that [offset, offset + length) touches. */
struct marks_count marks_count(const struct marks *marks, uint64_t offset, uint64_t length);

/* Whether something is marked there, without counting it. */
bool marks_any(const struct marks *marks, uint64_t offset, uint64_t length);

#endif
