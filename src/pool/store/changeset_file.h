/* SPDX-License-Identifier: Apache-2.0 */

/* Change sets as blobs (blob.h) that hold block/set.h's bytes.
 *
 * The name is the snapshot's number and a generation, and a file that the
 * catalogue does not name is never read. So a set is written under its final
 * name, made durable, and becomes valid with the commit; a merge writes the next
 * generation while the old one stays readable. Unfinished files are leftovers
 * (leftover.h).
 */
#ifndef CAIRN_POOL_SETFILE_H
#define CAIRN_POOL_SETFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/set.h"

struct blobs;
struct cairn_err;
struct setfile_reader;
struct setfile_writer;

/* "set-<number>-<generation>": also its id among the leftovers. */
#define SETFILE_NAME_MAX 64
void pool_changeset_file_name(uint64_t number, uint64_t generation, char out[SETFILE_NAME_MAX]);

/* Parses the name; false if it is not the name of a set. */
bool pool_changeset_file_parse_name(const char *name, uint64_t *ret_number,
				    uint64_t *ret_generation);

/* The highest generation for which a file exists, including quarantine; 0 if
 * none. */
int pool_changeset_file_newest_generation(struct blobs *sets, uint64_t number, uint64_t *ret,
					  struct cairn_err *err);

/* Calls `fn` for every set: with `aside` those in quarantine,
 * otherwise the others. A negative return ends the listing. */
int pool_changeset_file_list(struct blobs *sets, bool aside,
			     int (*fn)(void *arg, const char *name, struct cairn_err *err),
			     void *arg, struct cairn_err *err);

/* Quarantine: renames the file to "<name>.aside", which is never read, and
 * back.
 *
 * CAIRN_NOT_FOUND  no such file
 * CAIRN_EXISTS     a file with the new name exists
 */
#define SETFILE_ASIDE ".aside"
int pool_changeset_file_set_aside(struct blobs *sets, const char *name, struct cairn_err *err);
int pool_changeset_file_bring_back(struct blobs *sets, const char *name, struct cairn_err *err);
int pool_changeset_file_drop_aside(struct blobs *sets, const char *name, struct cairn_err *err);

/* Starts the file; a leftover one is overwritten. */
int pool_changeset_file_writer_new(struct blobs *sets, const char *name,
				   const struct block_set_info *info, struct setfile_writer **ret,
				   struct cairn_err *err);
/* Removes the file unless it was finished. */
void pool_changeset_file_writer_free(struct setfile_writer *writer);
CAIRN_DEFINE_CLEANUP(struct setfile_writer, pool_changeset_file_writer_free);

struct block_set_writer *pool_changeset_file_writer_set(struct setfile_writer *writer);

/* Makes file and name durable. */
int pool_changeset_file_writer_finish(struct setfile_writer *writer,
				      struct block_set_info *ret_info, struct cairn_err *err);

/* CAIRN_NOT_FOUND  no such file
 * CAIRN_DATA_LOSS  damaged
 */
int pool_changeset_file_reader_new(struct blobs *sets, const char *name, size_t buffer_size,
				   struct setfile_reader **ret, struct cairn_err *err);
/* Also frees the set's reader, unless it was taken. */
void pool_changeset_file_reader_free(struct setfile_reader *reader);
CAIRN_DEFINE_CLEANUP(struct setfile_reader, pool_changeset_file_reader_free);

/* The reader, borrowed; or handed over to a union, which must be freed before
 * the setfile_reader. */
struct block_set_reader *pool_changeset_file_reader_set(struct setfile_reader *reader);
struct block_set_reader *pool_changeset_file_reader_take(struct setfile_reader *reader);

#endif
