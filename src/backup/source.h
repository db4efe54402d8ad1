/* SPDX-License-Identifier: Apache-2.0 */

/* What a backup reads: one snapshot of one volume, wherever it is.
 *
 * Sources embed the instance as their first member. A source that cannot tell
 * what changed or what is allocated leaves that slot NULL, and a backup then
 * reads more: it never misses anything.
 *
 * `reader_open` may be called from any thread, a reader belongs to one; the
 * rest belongs to one thread.
 */
#ifndef CAIRN_BACKUP_SOURCE_H
#define CAIRN_BACKUP_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct backup_source;
struct cairn_err;
struct pool;
struct store_progress;
struct store_reader;

struct backup_source_ops {
	const char *name;
	void (*close)(struct backup_source *source);
	int (*reader_open)(struct backup_source *source, struct store_reader **ret,
			   struct cairn_err *err);

	/* Optional. Everything that may differ from the snapshot `base`.
	 *
	 * CAIRN_CANCELLED  asked for
	 * any other        it cannot be told; `err` says why, for people
	 */
	int (*changed)(struct backup_source *source, const char *base, struct block_sink sink,
		       struct cairn_err *err);
	/* Optional. Everything that may be other than zeros. */
	int (*allocated)(struct backup_source *source, struct block_sink sink,
			 struct cairn_err *err);
	/* Optional. The snapshots that `changed` may be asked for, nearest first,
	 * this one itself included. A positive return of `fn` ends it. */
	int (*lineage)(struct backup_source *source,
		       int (*fn)(void *arg, const char *snapshot_id, struct cairn_err *err),
		       void *arg, struct cairn_err *err);
	/* Optional. Called when everything has been read, before the backup is recorded: a
	 * failure means that what was read is not what a backup should hold. */
	int (*settled)(struct backup_source *source, struct cairn_err *err);
};

/* Strings belong to the source. */
struct backup_source {
	const struct backup_source_ops *ops;
	const char *volume_id;
	const char *volume_name;
	const char *snapshot_id;
	const char *snapshot_name;
	const char *kubernetes; /* JSON of objects to keep with the backup, or NULL */
	uint64_t size;
	uint64_t created_ns; /* of the snapshot */
	bool dated;          /* by its storage; else that is a guess */
	uint32_t granularity;
};

void backup_source_close(struct backup_source *source);
CAIRN_DEFINE_CLEANUP(struct backup_source, backup_source_close);

/* Steps of a pool's lineage that are followed. */
#define BACKUP_LINEAGE_MAX 100000U

/* A snapshot of a pool; the pool must outlive it. `progress` (may be NULL) is for
 * a change set that still has to be made.
 *
 * CAIRN_NOT_FOUND     no such snapshot
 * CAIRN_PRECONDITION  it is deleted
 */
int backup_source_pool(struct pool *pool, const char *snapshot,
		       const struct store_progress *progress, struct backup_source **ret,
		       struct cairn_err *err);

#endif
