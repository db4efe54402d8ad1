/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots: the units of restore.
 *
 * A small JSON file that names a root tree. Snapshots never change; restic's
 * `tag` and `rewrite` replace one by another with a new id, so a parent is
 * looked up by host, path and tags and never only by a stored id. Our own
 * metadata goes into tags or into a file of the tree, because other programs
 * drop unknown fields.
 */
#ifndef CAIRN_REPO_SNAPSHOT_H
#define CAIRN_REPO_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"

struct cairn_err;
struct repo;

#define REPO_SNAPSHOT_STRINGS_MAX 4096 /* paths, and tags, of one snapshot */

/* The numbers that restic shows in its Size column and its JSON. */
struct repo_summary {
	bool given;
	int64_t backup_start_ns, backup_end_ns;
	uint64_t files_new, files_changed, files_unmodified;
	uint64_t dirs_new, dirs_changed, dirs_unmodified;
	uint64_t data_blobs, tree_blobs;
	uint64_t data_added, data_added_packed;
	uint64_t total_files_processed, total_bytes_processed;
};

/* For saving, strings and arrays belong to the caller. A loaded snapshot owns
 * them and is freed by repo_snapshot_free(). */
struct repo_snapshot {
	struct repo_id id; /* set by save and load */
	int64_t time_ns;   /* since 1970 */
	struct repo_id tree;
	bool has_parent, has_original;
	struct repo_id parent, original;
	const char **paths; /* absolute; one stable path for each volume */
	size_t n_paths;
	const char *hostname; /* NULL: that of the repository's options */
	const char *username; /* or NULL */
	uint32_t uid, gid;
	const char **tags;
	size_t n_tags;
	const char *program_version;
	struct repo_summary summary;
	void *owned; /* internal */
};

/* Accepts NULL. */
void repo_snapshot_free(struct repo_snapshot *snapshot);
CAIRN_DEFINE_CLEANUP(struct repo_snapshot, repo_snapshot_free);

/* Flushes (blob.h), then stores the snapshot; durable when it returns. The lock
 * is checked before and after, also if the put failed: if it was lost in between, the
 * snapshot is removed again.
 *
 * CAIRN_NOT_FOUND  the tree is not in the repository
 * CAIRN_ABORTED    the lock was lost; nothing was saved, or the text says what could not be removed
 */
int repo_snapshot_save(struct repo *repo, const struct repo_snapshot *snapshot,
		       struct repo_id *ret_id, struct cairn_err *err);

int repo_snapshot_load(struct repo *repo, const struct repo_id *id, struct repo_snapshot **ret,
		       struct cairn_err *err);

/* The snapshot whose id begins with `prefix`.
 *
 * CAIRN_NOT_FOUND  no id begins with it
 * CAIRN_INVALID    several ids begin with it, or it cannot be the beginning of an id
 * CAIRN_DATA_LOSS  the snapshot cannot be read
 */
int repo_snapshot_find(struct repo *repo, const char *prefix, struct repo_snapshot **ret,
		       struct cairn_err *err);

/* The name of that snapshot, which need not be readable. */
int repo_snapshot_find_name(struct repo *repo, const char *prefix, struct repo_id *ret,
			    struct cairn_err *err);

struct repo_snapshot_list {
	struct repo_snapshot **items; /* oldest first */
	size_t n;
	size_t gone;    /* files that were listed but no longer exist */
	size_t damaged; /* files that could not be read; the first one's error: */
	int damaged_code;
	char damaged_text[160];
};

void repo_snapshot_list_done(struct repo_snapshot_list *list);

/* All snapshots that can be read. */
int repo_snapshot_list(struct repo *repo, struct repo_snapshot_list *ret, struct cairn_err *err);

/* The index of the newest of `n` > 0 snapshots that are sorted by time, oldest first.
 * A wrong clock does not mislead it: a snapshot from the future is the newest only if
 * all are, and a snapshot is newer than its parent whatever their times say. */
size_t repo_snapshot_newest(struct repo_snapshot *const *items, size_t n);

/* Deletes the snapshot, but not the data that it refers to: prune.h does that.
 * Needs the exclusive lock. A missing snapshot is not an error. */
int repo_snapshot_remove(struct repo *repo, const struct repo_id *id, struct cairn_err *err);

#endif
