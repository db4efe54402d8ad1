/* SPDX-License-Identifier: Apache-2.0 */

/* Reading what a plan wants read, into a repository.
 *
 * Neighbours are read with one call. Several threads read, hash, compress and
 * encrypt; memory is a buffer a thread and what the repository keeps to be sent.
 */
#ifndef CAIRN_BACKUP_READING_H
#define CAIRN_BACKUP_READING_H

#include <stdint.h>

struct backup_progress;
struct backup_source;
struct cairn_err;
struct chunk_map;
struct repo;

struct reading_result {
	uint64_t bytes_read;
	uint64_t chunks_new;
	uint64_t bytes_new;
};

/* Afterwards no chunk of the map is left to be read: it is kept or zero. */
int reading_run(struct repo *repo, struct backup_source *source, struct chunk_map *map,
		unsigned threads, const struct backup_progress *progress,
		struct reading_result *ret, struct cairn_err *err);

#endif
