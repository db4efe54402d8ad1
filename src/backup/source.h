/* SPDX-License-Identifier: Apache-2.0 */

/* The source of a backup: one snapshot of one volume, of any kind.
 *
 * Sources embed the instance as their first member. A source that cannot report
 * changes or allocated blocks leaves that slot NULL, and the backup then reads
 * more; it is complete in any case.
 *
 * `reader_open` may be called from any thread, a reader belongs to one;
 * everything else belongs to one thread.
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

	/* Optional. Reports everything that may differ from the snapshot
	 * `base`.
	 *
	 * CAIRN_CANCELLED  requested
	 * any other        the changes are unknown; `err` says why, for the
	 * user
	 */
	int (*changed)(struct backup_source *source, const char *base, struct block_sink sink,
		       struct cairn_err *err);
	/* Optional. Reports everything that may be other than zeros. */
	int (*allocated)(struct backup_source *source, struct block_sink sink,
			 struct cairn_err *err);
	/* Optional. Lists the snapshots that `changed` accepts as base, nearest
	 * first, including this one itself. A positive return of `fn` ends the
	 * list. A pool that was copied assigns the same ids as its copy: only the
	 * time (0: not known) distinguishes their snapshots. */
	int (*lineage)(struct backup_source *source,
		       int (*fn)(void *arg, const char *snapshot_id, uint64_t created_ns,
				 struct cairn_err *err),
		       void *arg, struct cairn_err *err);
	/* Optional. Called when everything has been read, before the backup is recorded: a
	 * failure means that the data read is not consistent and must not become a
	 * backup. */
	int (*settled)(struct backup_source *source, struct cairn_err *err);
};

/* Strings belong to the source. */
struct backup_source {
	const struct backup_source_ops *ops;
	const char *volume_id;
	const char *volume_name;
	const char *pool_id;  /* of the pool that holds the volume, or NULL */
	const char *pool_dir; /* the pool's directory, or NULL */
	const char *snapshot_id;
	const char *snapshot_name;
	const char *kubernetes; /* JSON of objects to keep with the backup, or NULL */
	uint64_t size;
	uint64_t created_ns; /* of the snapshot */
	bool dated;          /* the storage reported that time; otherwise it is a guess */
	uint32_t granularity;
};

void backup_source_close(struct backup_source *source);
CAIRN_DEFINE_CLEANUP(struct backup_source, backup_source_close);

/* Maximum number of steps of a pool's lineage. */
#define BACKUP_LINEAGE_MAX 100000U

/* A snapshot of a pool; the pool must outlive it. `progress` (may be NULL) is for
 * a change set that still has to be computed.
 *
 * CAIRN_NOT_FOUND     no such snapshot
 * CAIRN_PRECONDITION  it is deleted
 */
int backup_source_pool(struct pool *pool, const char *snapshot,
		       const struct store_progress *progress, struct backup_source **ret,
		       struct cairn_err *err);

#endif
