/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the chunks that a plan marks as to be read, and stores them in a
 * repository.
 *
 * Adjacent chunks are read with one call. Several threads read, hash, compress
 * and encrypt; memory use is one buffer per thread and the packs that the
 * repository sends.
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

/* Afterwards every chunk of the map is kept or zero. */
int backup_read_chunks(struct repo *repo, struct backup_source *source, struct chunk_map *map,
		       unsigned threads, const struct backup_progress *progress,
		       struct reading_result *ret, struct cairn_err *err);

#endif
