/* SPDX-License-Identifier: Apache-2.0 */

/* Restores an image.
 *
 * Several threads fetch chunks, many with one request, and write them to the
 * target. Zeros become holes: nothing is written if the target reads as zeros,
 * otherwise a hole is punched. Chunks that the target is known to hold are not
 * fetched.
 */
#ifndef CAIRN_BACKUP_RESTORE_H
#define CAIRN_BACKUP_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

struct backup_progress;
struct cairn_err;
struct chunk_map;
struct changed_bitmap;
struct repo;
struct target;

struct restore_spec {
	const struct chunk_map *map;
	/* What the target holds: this image, except for the parts marked in
	 * `changed`. NULL: unknown. */
	const struct chunk_map *held;
	const struct changed_bitmap *changed; /* or NULL: nothing */
	unsigned threads;                     /* 0: one per processor */
	const struct backup_progress *progress;
};

struct restore_result {
	uint64_t bytes_written;
	uint64_t bytes_zeroed; /* holes that were created or already existed */
	uint64_t bytes_kept;   /* known to be the same, left unchanged */
};

int backup_restore_write(struct repo *repo, struct target *target, const struct restore_spec *spec,
			 struct restore_result *ret, struct cairn_err *err);

/* Reads everything back and compares it with the ids.
 *
 * CAIRN_DATA_LOSS  they differ; the text says where
 */
int backup_restore_verify(struct target *target, const struct chunk_map *map, unsigned threads,
			  const struct backup_progress *progress, struct cairn_err *err);

#endif
