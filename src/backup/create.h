/* SPDX-License-Identifier: Apache-2.0 */

/* Creates a backup of one snapshot.
 *
 * There are three modes, the cheapest first: read the changes since the parent;
 * read the allocated blocks; read everything. A fallback is reported with its
 * reason. The backup is complete in each mode: unread chunks come from the
 * parent's list.
 *
 * Chunks sent by an interrupted backup stay in the repository; the next attempt
 * finds them and sends only the missing ones.
 */
#ifndef CAIRN_BACKUP_CREATE_H
#define CAIRN_BACKUP_CREATE_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/backup_record.h"
#include "backup/parent.h"
#include "backup/progress.h"
#include "repo/id.h"

struct backup_source;
struct cairn_err;
struct repo;
struct repo_snapshot;
struct tags;

struct backup_create_options {
	enum backup_mode best;              /* the first mode that is tried */
	const struct repo_snapshot *parent; /* the only one to use; NULL: search for one */
	const char *hostname;               /* NULL: this machine's */
	const struct tags *tags;            /* the user's; or NULL */
	const char *version;                /* of the program */
	uint64_t budget;                    /* of chunks; 0: the default */
	uint64_t fixed;                     /* 0, or the length of every chunk: for comparisons */
	uint64_t segment;                   /* 0, or always segments of that length: for tests */
	unsigned threads;                   /* 0: one per processor */
	struct backup_talk talk;
	struct backup_progress progress;
};

struct backup_result {
	struct repo_id id;
	enum backup_mode mode;
	bool has_parent;
	struct repo_id parent;
	char parent_snapshot[160];
	char reason[200]; /* why this mode was used */
	uint64_t size;
	uint64_t bytes_changed; /* or allocated: the extents of the chosen mode */
	uint64_t bytes_read;
	uint64_t bytes_new;    /* of chunks that were not stored yet, plain */
	uint64_t bytes_stored; /* growth of the repository */
	uint64_t chunks;
	uint64_t chunks_new;
	uint64_t bytes_merged;
	uint64_t packs_adopted; /* left by a backup that was interrupted */
	uint64_t packs_gone;    /* named by the index, but missing in the store */
};

/* The repository must be open with a shared lock; its index is loaded.
 *
 * CAIRN_CANCELLED  requested by `progress`; chunks already sent are kept
 */
int backup_create(struct repo *repo, struct backup_source *source,
		  const struct backup_create_options *options, struct backup_result *ret,
		  struct cairn_err *err);

#endif
