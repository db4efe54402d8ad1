/* SPDX-License-Identifier: Apache-2.0 */

/* Writing an image back.
 *
 * Chunks are fetched by several threads, many with one request, and written
 * where they belong. Zeros are holes: nothing is written on a target that reads
 * as zeros, and elsewhere a hole is punched. What the target is known to hold
 * already is not fetched.
 */
#ifndef CAIRN_BACKUP_RESTORE_H
#define CAIRN_BACKUP_RESTORE_H

#include <stdbool.h>
#include <stdint.h>

struct backup_progress;
struct cairn_err;
struct chunk_map;
struct marks;
struct repo;
struct target;

struct restore_spec {
	const struct chunk_map *map;
	/* What the target holds: this image, but for what is marked in `changed`.
	 * NULL: not known. */
	const struct chunk_map *held;
	const struct marks *changed; /* or NULL: nothing */
	unsigned threads;            /* 0: one a processor */
	const struct backup_progress *progress;
};

struct restore_result {
	uint64_t bytes_written;
	uint64_t bytes_zeroed; /* holes that were made or stayed */
	uint64_t bytes_kept;   /* of a known older state, left as they were */
};

int restore_run(struct repo *repo, struct target *target, const struct restore_spec *spec,
		struct restore_result *ret, struct cairn_err *err);

/* Reads all of it back and compares with the ids.
 *
 * CAIRN_DATA_LOSS  it is not the same; the text says where
 */
int restore_verify(struct target *target, const struct chunk_map *map, unsigned threads,
		   const struct backup_progress *progress, struct cairn_err *err);

#endif
