/* SPDX-License-Identifier: Apache-2.0 */

/* A volume as a list of chunks: the content of its file in a backup.
 *
 * Chunks are contiguous from offset 0, so a chunk's offset is the sum of the
 * lengths before it. A data chunk is a power of two long and aligned to its
 * length, except for the last one of a volume: they are buddies, so splitting
 * always gives the same chunks, and merging undoes a split. Runs of zeros have
 * any length and are split only when they are written.
 *
 * A chunk takes 40 bytes, so that two lists of a large volume fit in memory.
 * Not thread-safe, but different chunks may be filled by different threads.
 */
#ifndef CAIRN_BACKUP_CHUNK_H
#define CAIRN_BACKUP_CHUNK_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define CHUNK_ID_BYTES 32U

/* Length limits of data chunks; only the last one may be shorter. */
#define CHUNK_DATA_MIN 4096U
#define CHUNK_DATA_MAX (8U << 20)

/* Maximum length of a run of zeros in memory; longer ones are split. */
#define CHUNK_ZERO_MAX (1U << 30)

enum chunk_kind {
	CHUNK_KEPT, /* its id is known */
	CHUNK_ZERO, /* all zeros */
	CHUNK_READ, /* to be read; the id is set then */
	CHUNK_LOST, /* its id is known, but its pack is missing */
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
	size_t barrier;      /* zeros are not merged with chunks before this one */
	uint64_t lost_zeros; /* of kind CHUNK_ZERO, whose blobs must be stored again */
};

/* Also a cleanup function. */
void backup_chunk_map_done(struct chunk_map *map);

/* Appends; `id` is NULL for anything but CHUNK_KEPT and CHUNK_LOST. Zeros are merged with a
 * run of zeros before them, and may have any `length`.
 *
 * CAIRN_NO_SPACE  out of memory
 */
int backup_chunk_map_add(struct chunk_map *map, enum chunk_kind kind, const uint8_t *id,
			 uint64_t length, struct cairn_err *err);

/* Checks that data chunks are aligned powers of two within the limits. Another
 * program's list that does not fulfil this can be restored, but not used as a
 * parent.
 *
 * CAIRN_PRECONDITION  they are not
 */
int backup_chunk_map_check(const struct chunk_map *map, struct cairn_err *err);

#endif
