/* SPDX-License-Identifier: Apache-2.0 */

/* Where the bytes of a file are stored, and how two such maps are compared.
 *
 * While two snapshots both exist, each holds a reference on its blocks: a block
 * that both have at the same offset was never written in between. So equal
 * places at equal offsets mean equal data, and no data is read. An extent whose
 * place the filesystem does not report exactly is "opaque" and never equal to
 * anything.
 *
 * A map comes as a stream of mappings, ascending, without overlap; what lies
 * between two of them is a hole. Streams are read in batches into fixed memory,
 * so memory use does not depend on the number of extents.
 */
#ifndef CAIRN_POOL_MAPPING_H
#define CAIRN_POOL_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/store/extent_merge.h"

struct cairn_err;
struct store_progress;

enum mapping_kind {
	MAPPING_ZERO,   /* reads as zeros: a hole or unwritten preallocation */
	MAPPING_DATA,   /* stored at (place, inner) */
	MAPPING_OPAQUE, /* stored somewhere; equality cannot be proven */
};

struct mapping {
	uint64_t offset;
	uint64_t length;
	uint64_t place; /* identity of what holds the bytes: a device or a disk extent */
	uint64_t inner; /* offset within it; grows byte by byte with the file offset */
	enum mapping_kind kind;
};

struct mapping_source {
	/* Fills up to `max` mappings; *ret_n == 0 is the end. */
	int (*next)(struct mapping_source *source, struct mapping *out, size_t max, size_t *ret_n,
		    struct cairn_err *err);
};

/* Guards against reused addresses. If a filesystem moves data of read-only files (btrfs:
 * balance, deduplication), an address read for one side can be freed and hold data of
 * the other side by the time that side is read. The guard's epoch changes before a freed
 * address is used again. Batches of the two sides are compared only if they were read
 * within one epoch; otherwise both are read again. */
struct mapping_guard {
	int (*epoch)(void *arg, uint64_t *ret, struct cairn_err *err);
	/* Moves both sources to the mapping at `start`, as for
	 * pool_mapping_compare_move(). */
	int (*restart)(void *arg, uint64_t start, uint64_t end, struct cairn_err *err);
	void *arg;
};

/* How often both sides are read again without progress; after that the remainder
 * counts as changed. */
#define MAPPING_RESTARTS_MAX 200U

/* Mappings held of each side. Larger batches do not fit the processor's
 * cache. */
#define MAPPING_BATCH 512U

struct mapping_cursor {
	struct mapping_source *source;
	uint64_t size; /* of the file; mappings past it do not count */
	size_t at, n;
	bool ended;
	uint64_t fills;      /* batches asked for so far */
	uint64_t seen;       /* mappings delivered so far */
	uint64_t data_bytes; /* bytes covered by those that hold data */
	struct mapping batch[MAPPING_BATCH];
};

/* A comparison that can be stopped and continued. Large: not for the stack of
 * a deep call chain. */
struct mapping_compare {
	struct mapping_cursor base;
	struct mapping_cursor target;
	uint64_t pos; /* everything before is compared and passed on */
	const struct mapping_guard *guard;
	uint64_t epoch;    /* epoch in which the batches were read */
	uint64_t fills;    /* batches of both sides read in that epoch */
	uint64_t restarts; /* since `pos` was `stuck_at` */
	uint64_t stuck_at;
	bool in_doubt; /* nothing can be proven equal any more */
};

void pool_mapping_compare_init(struct mapping_compare *compare, struct mapping_source *base,
			       uint64_t base_size, struct mapping_source *target,
			       uint64_t target_size);

/* Sets a guard, which must stay valid; call it before anything was compared. A guard
 * whose epoch is CAIRN_UNIMPLEMENTED is ignored: the filesystem does not move
 * data. */
int pool_mapping_compare_set_guard(struct mapping_compare *compare,
				   const struct mapping_guard *guard, struct cairn_err *err);

/* Continues with [start, end) of the target; the caller has moved both sources
 * to the mapping at `start`. */
void pool_mapping_compare_move(struct mapping_compare *compare, uint64_t start, uint64_t end);

/* Passes to `joiner` every range of the target, up to its size, that may differ
 * from the base. Stops early after examining about `budget` mappings (of both
 * sides); *ret_done says whether the end was reached. The joiner is not
 * flushed. `progress` may be NULL.
 *
 * CAIRN_CANCELLED  the caller asked for it
 */
int pool_mapping_compare_run(struct mapping_compare *compare, uint64_t budget,
			     struct extent_merge *joiner, const struct store_progress *progress,
			     bool *ret_done, struct cairn_err *err);

/* Mappings examined so far, both sides. */
uint64_t pool_mapping_compare_seen(const struct mapping_compare *compare);

/* Fills `out` with the ranges that hold data and end after `start`, clipped to
 * [start, size); see store.h. */
int pool_mapping_allocated(struct mapping_source *source, uint64_t start, uint64_t size,
			   struct block_extent *out, size_t max, size_t *ret_n,
			   struct cairn_err *err);

#endif
