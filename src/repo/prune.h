/* SPDX-License-Identifier: Apache-2.0 */

/* Deletes data that no snapshot needs.
 *
 * Marks every blob that a snapshot reaches; packs without a used blob are deleted,
 * packs with too many unused ones are rewritten. Of a blob that is stored twice,
 * the copy that is kept was read and verified. The order is: new packs, new index,
 * old index, old packs. After a crash at any point the repository is consistent,
 * and the next prune completes the work.
 *
 * Where space is short, this is repeated: packs without a used blob are deleted first, then
 * as many are rewritten as there is room for, those with the largest unused part first. On a
 * full disk index files are replaced one by one: that needs the space of one index file, which
 * the store's reserve provides; a file for which there is no space keeps the packs that it names
 * until the next pass.
 */
#ifndef CAIRN_REPO_PRUNE_H
#define CAIRN_REPO_PRUNE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_snapshot;

struct repo_prune_options {
	bool dry_run;              /* only say what would be done */
	unsigned max_unused_tenth; /* unused data allowed, in tenths of a percent of the used
				    * data */
	uint64_t max_repack_bytes; /* 0: no limit */
	/* True for a file that a snapshot can do without: if its content is lost, the prune goes on,
	 * and keeps all other data of the snapshot. NULL: every loss ends the prune. */
	bool (*may_lack)(void *arg, const struct repo_snapshot *snapshot, const char *name);
	/* Called from one thread at a time. */
	void (*progress)(void *arg, const char *step, uint64_t done, uint64_t total);
	void *arg;
};
#define REPO_PRUNE_MAX_UNUSED 50 /* 5 %, as restic does */

struct repo_prune_stats {
	uint64_t blobs_used, blobs_unused, blobs_duplicate;
	uint64_t bytes_used, bytes_unused; /* as stored */
	uint64_t packs_kept, packs_deleted, packs_repacked;
	uint64_t packs_put_off; /* not rewritten or deleted, because the store has no space */
	uint64_t room_needed;   /* space that one of these takes; 0: not known */
	uint64_t packs_unknown, bytes_unknown; /* in no index; deleted too */
	uint64_t files_half; /* left half-written by a writer that died; deleted too */
	uint64_t
		snapshots_late; /* saved meanwhile by a writer without a lock, incomplete; removed */
	uint64_t bytes_freed, bytes_repacked;
	uint64_t files_lacking; /* may_lack() allowed their loss */
};

/* Needs the exclusive lock, or, for a dry run, any or no lock; loads the index.
 *
 * CAIRN_DATA_LOSS     a blob that a snapshot needs is missing or damaged: nothing
 *                     was deleted
 * CAIRN_ABORTED       the lock was lost, or a snapshot was removed or saved meanwhile
 * CAIRN_CANCELLED     requested (repo_store_options.cancelled); the next prune completes the work
 * CAIRN_PRECONDITION  no exclusive lock
 * CAIRN_NO_SPACE      no space to rewrite packs, and nothing could be deleted without that
 */
int repo_prune(struct repo *repo, const struct repo_prune_options *options,
	       struct repo_prune_stats *ret, struct cairn_err *err);

#endif
