/* SPDX-License-Identifier: Apache-2.0 */

/* A volume as a list of chunks: the content of its file in a backup.
 *
 * Chunks lie one after the other from offset 0, so a chunk's offset is the sum
 * of the lengths before it. A data chunk is a power of two long and aligned to
 * its length, except for the last one of a volume: buddies, so that a chunk
 * that is cut gives chunks that others were cut to as well, and merging is
 * undoing it. Runs of zeros have any length and are cut only when they are
 * written.
 *
 * 40 bytes a chunk, so that the lists of a large volume fit in memory twice.
 * Not thread-safe, but different chunks may be filled by different threads.
 */
#ifndef CAIRN_BACKUP_CHUNK_H
#define CAIRN_BACKUP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define CHUNK_ID_BYTES 32U

/* Data: never shorter (but at the end), never longer. */
#define CHUNK_DATA_MIN 4096U
#define CHUNK_DATA_MAX (8U << 20)

/* A run of zeros in memory; longer ones are several. */
#define CHUNK_ZERO_MAX (1U << 30)

enum chunk_kind {
	CHUNK_KEPT, /* its id is known */
	CHUNK_ZERO, /* all zeros */
	CHUNK_READ, /* to be read; the id comes then */
	CHUNK_LOST, /* its id is known, its bytes are in no pack that is there */
};

struct chunk {
	uint8_t id[CHUNK_ID_BYTES];
	uint32_t length;
	uint8_t kind; /* enum chunk_kind */
};

struct chunk_map {
	struct chunk *at;
	size_t n;
	size_t room;
	uint64_t size;       /* sum of the lengths */
	uint64_t lost;       /* of those of kind CHUNK_LOST */
	size_t barrier;      /* zeros do not join chunks before this one */
	uint64_t lost_zeros; /* of kind CHUNK_ZERO, whose blobs are to be stored again */
};

/* Also a cleanup function. */
void chunk_map_done(struct chunk_map *map);

/* Appends; `id` is NULL for anything but CHUNK_KEPT and CHUNK_LOST. Zeros join a run of zeros
 * before them. `length` of zeros may be anything.
 *
 * CAIRN_NO_SPACE  out of memory
 */
int chunk_map_add(struct chunk_map *map, enum chunk_kind kind, const uint8_t *id, uint64_t length,
		  struct cairn_err *err);

/* Data chunks are aligned powers of two within the limits. A list from outside
 * for which this is not so can be restored, but not built upon.
 *
 * CAIRN_PRECONDITION  it is not so
 */
int chunk_map_check(const struct chunk_map *map, struct cairn_err *err);

#endif
