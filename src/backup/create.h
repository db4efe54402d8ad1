/* SPDX-License-Identifier: Apache-2.0 */

/* Making a backup of one snapshot.
 *
 * Three ways, from the cheapest on: what changed against the parent is read;
 * what is allocated is read; everything is read. A step down is told, with the
 * reason. Whatever was read, the backup is whole: the rest is taken from the
 * parent's list of chunks.
 *
 * Interrupted, it leaves what it sent; the next attempt finds that and sends
 * only what is missing.
 */
#ifndef CAIRN_BACKUP_CREATE_H
#define CAIRN_BACKUP_CREATE_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/parent.h"
#include "backup/progress.h"
#include "backup/record.h"
#include "repo/id.h"

struct backup_source;
struct cairn_err;
struct repo;
struct repo_snapshot;
struct tags;

struct backup_create_options {
	enum backup_mode best;              /* the first way that is tried */
	const struct repo_snapshot *parent; /* the only one to build on; NULL: looked for */
	const char *hostname;               /* NULL: this machine's */
	const struct tags *tags;            /* the user's; or NULL */
	const char *version;                /* of the program */
	uint64_t budget;                    /* of chunks; 0: the default */
	uint64_t fixed;                     /* 0; else the length of every chunk: for comparing */
	uint64_t segment;                   /* 0; else always segments of that length: for tests */
	unsigned threads;                   /* 0: one a processor */
	struct backup_talk talk;
	struct backup_progress progress;
};

struct backup_result {
	struct repo_id id;
	enum backup_mode mode;
	bool has_parent;
	struct repo_id parent;
	char parent_snapshot[160];
	char reason[200]; /* why it was made this way */
	uint64_t size;
	uint64_t bytes_changed; /* or allocated: what the chosen way had to look at */
	uint64_t bytes_read;
	uint64_t bytes_new;    /* of chunks that were not there, plain */
	uint64_t bytes_stored; /* what the repository grew by */
	uint64_t chunks;
	uint64_t chunks_new;
	uint64_t bytes_merged;
	uint64_t packs_adopted; /* left by a backup that was interrupted */
	uint64_t packs_gone;    /* that the index named and the store had not */
};

/* The repository must be open with a shared lock; its index is loaded.
 *
 * CAIRN_CANCELLED  the progress said so; what was sent is kept
 */
int backup_create(struct repo *repo, struct backup_source *source,
		  const struct backup_create_options *options, struct backup_result *ret,
		  struct cairn_err *err);

#endif
