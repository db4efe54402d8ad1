/* SPDX-License-Identifier: Apache-2.0 */

/* Plans which chunks a backup keeps, which it reads, and how it splits them.
 *
 * Small chunks store little more than the changes; many chunks make the index
 * and every snapshot's tree large. So there is a budget of chunks, from which
 * three sizes follow:
 *
 *   base   the initial size of chunks: from 16 KiB up, so that a volume takes
 *          six tenths of the budget
 *   leaf   the size to which a chunk is split around a change: 4 KiB, or
 *          more if the budget does not allow it. A chunk in which one block
 *          changed has to be stored again as a whole, however it is split; split
 *          as buddies around the block, the next change there costs a fraction
 *   merge  when the budget is exceeded, unchanged chunks are put
 *          together again up to `base`, from where the last backup stopped
 *          merging: a clock's hand that goes round the volume. It costs reading
 *          and storing them, so it is bounded by what the backup reads anyway
 *
 * docs/decisions/050-chunks.md has the figures. Pure: no clock, no descriptor.
 */
#ifndef CAIRN_BACKUP_PLAN_H
#define CAIRN_BACKUP_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/chunk.h"

struct cairn_err;
struct changed_bitmap;

#define PLAN_BUDGET   (1U << 18) /* chunks per volume */
#define PLAN_BASE_MIN (16U << 10)

enum plan_mode {
	PLAN_CHANGED,   /* marks are the changes against `parent` */
	PLAN_ALLOCATED, /* marks are allocated blocks; `parent` (or NULL) gives only the
			 * boundaries */
};

struct plan_spec {
	enum plan_mode mode;
	const struct chunk_map *parent;     /* checked; not longer than the volume */
	const struct changed_bitmap *marks; /* of the volume as it is now */
	uint64_t budget;                    /* 0: PLAN_BUDGET */
	uint64_t hand;                      /* where merging continues */
	uint64_t fixed;                     /* 0, or the length of every chunk: for comparisons */
};

struct plan {
	struct chunk_map map;
	uint64_t base;
	uint64_t leaf;
	uint64_t hand;
	uint64_t chunks;     /* of data */
	uint64_t read_bytes; /* of chunks to be read, merging included */
	uint64_t read_chunks;
	uint64_t merged_bytes; /* read only in order to be merged */
};

/* CAIRN_PRECONDITION  the parent is longer than the volume
 * CAIRN_NO_SPACE      out of memory */
int backup_plan_make(const struct plan_spec *spec, struct plan *ret, struct cairn_err *err);
void backup_plan_done(struct plan *plan);

/* The base for that many bytes of data. */
uint64_t backup_plan_base(uint64_t data_bytes, uint64_t budget);

/* ---- segments ----------------------------------------------------------------
 *
 * Above PLAN_FILE_DATA bytes of data a volume is not one list of chunks but many, one for
 * each segment, and only those in which something changed are planned. The budget is a
 * segment's: docs/decisions/051-segments.md. */
#define PLAN_FILE_DATA    (4ULL << 30)
#define PLAN_SEGMENT_BASE (32U << 10)
#define PLAN_SEGMENT_DATA (256ULL << 30) /* up to this; twice the length for four times as much */

uint64_t backup_plan_segment_base(uint64_t data_bytes);

struct plan_segment_spec {
	enum plan_mode mode;
	const struct changed_bitmap *marks; /* of the volume as it is now */
	uint64_t offset;                    /* of the segment */
	uint64_t length;                    /* a power of two, or the remainder of the volume */
	uint64_t base;                      /* not above the length */
	uint64_t hand;                      /* where in the segment merging begins */

	/* The chunks of the parent from the one that contains `offset`, which begins at
	 * `first_offset`; NULL: no parent. */
	const struct chunk_map *parent;
	size_t first;
	uint64_t first_offset;
};

struct plan_tally {
	uint64_t chunks; /* of data */
	uint64_t read_bytes;
	uint64_t read_chunks;
	uint64_t merged_bytes;
};

/* Appends the segment's chunks to `map`, and adds to `tally`. */
int backup_plan_segment(const struct plan_segment_spec *spec, struct chunk_map *map,
			struct plan_tally *tally, struct cairn_err *err);

#endif
