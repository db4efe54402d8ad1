/* SPDX-License-Identifier: Apache-2.0 */

/* The snapshots of a pool, and rolling a volume back to one.
 *
 * See pool.h for names, ids, the life of a snapshot and the thread rule.
 */
#ifndef CAIRN_POOL_POOL_SNAPSHOTS_H
#define CAIRN_POOL_POOL_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keep.h"
#include "pool/pool_names.h"
#include "pool/pool_volumes.h"

struct cairn_err;
struct pool;
struct store_progress;
struct store_reader;

enum pool_set_state {
	POOL_SET_NONE,    /* first of its line: nothing to compare with */
	POOL_SET_PENDING, /* cut, not compared yet */
	POOL_SET_READY,
	POOL_SET_LOST, /* damaged and cannot be computed again */
};

struct pool_snapshot {
	char id[POOL_ID_MAX + 1];
	char name[POOL_NAME_MAX + 1];
	char volume_id[POOL_ID_MAX + 1];
	char volume_name[POOL_NAME_MAX + 1];
	char parent[POOL_ID_MAX + 1]; /* predecessor's id, or "" */
	uint64_t size;
	uint64_t created_ns;
	bool deleted;        /* a tombstone */
	uint64_t expires_ns; /* of a tombstone */
	enum pool_set_state set;
	uint64_t set_extents;
	uint64_t set_changed_bytes;
	uint64_t set_zero_bytes;
};

struct pool_snapshot_spec {
	const char *volume; /* name or id */
	const char *name;
};

/* Splits "VOLUME@NAME" for a snapshot to be made: at the '@' that leaves the
 * longest existing volume's name in front. Outputs are owned by the caller. */
int pool_snapshot_spec_parse(struct pool *pool, const char *text, char **ret_volume,
			     char **ret_name, struct cairn_err *err);

/* Cuts all of them at one point in time, or none. On return every cut is
 * durable; change sets are recorded as pending: call pool_snapshot_complete()
 * for each, now or after the acknowledgement. `ret` has room for `n`.
 *
 * CAIRN_EXISTS   a live snapshot of that volume has the name
 * CAIRN_ABORTED  a raw volume kept changing, or the freeze expired
 */
int pool_snapshot_create(struct pool *pool, const struct pool_snapshot_spec *specs, size_t n,
			 struct pool_snapshot *ret, struct cairn_err *err);

/* Computes the snapshot's change set if it is pending, or waits if another
 * process is computing it; then frees data that only this comparison still
 * needed.
 *
 * CAIRN_CANCELLED  `progress` says so
 * CAIRN_NOT_FOUND  the snapshot was deleted and has expired
 */
int pool_snapshot_complete(struct pool *pool, const char *snapshot,
			   const struct store_progress *progress, struct cairn_err *err);

/* Finds live snapshots; and tombstones by id or, if no live snapshot has the
 * name, by name.
 *
 * CAIRN_NOT_FOUND     never existed in this pool
 * CAIRN_PRECONDITION  the id existed, but its retention time has passed
 * CAIRN_DATA_LOSS     its record cannot be read, or is missing although it has data
 */
int pool_snapshot_get(struct pool *pool, const char *snapshot, struct pool_snapshot *ret,
		      struct cairn_err *err);

/* In the order of creation within a volume. `volume` NULL: of all volumes.
 * Tombstones only when asked for. `after` is a snapshot id or NULL. */
struct pool_snapshot_list_spec {
	const char *volume;
	const char *after;
	bool with_deleted;
};

int pool_snapshot_list(struct pool *pool, const struct pool_snapshot_list_spec *spec,
		       int (*fn)(void *arg, const struct pool_snapshot *snapshot,
				 struct cairn_err *err),
		       void *arg, struct cairn_err *err);

/* Renames a live snapshot within its volume; its id stays. A deleted snapshot that had
 * the new name can then be found only by its id.
 *
 * CAIRN_EXISTS   another live snapshot of the volume has the name
 * CAIRN_INVALID  not a valid name
 */
int pool_snapshot_rename(struct pool *pool, const char *snapshot, const char *name,
			 struct pool_snapshot *ret, struct cairn_err *err);

/* Turns it into a tombstone; waits for change sets that still need its data.
 * CAIRN_PRECONDITION when it is attached. */
int pool_snapshot_delete(struct pool *pool, const char *snapshot, struct cairn_err *err);
int pool_snapshot_path(struct pool *pool, const char *snapshot, char **ret_path,
		       struct cairn_err *err);
int pool_snapshot_attach(struct pool *pool, const char *snapshot, char *ret_device, size_t n,
			 struct cairn_err *err);
int pool_snapshot_detach(struct pool *pool, const char *snapshot, struct cairn_err *err);

/* The data of a live snapshot. */
int pool_snapshot_reader(struct pool *pool, const char *snapshot, struct store_reader **ret,
			 struct cairn_err *err);

struct pool_rollback_spec {
	const char *snapshot; /* a live one of the volume */
	const char *keep_as;  /* name of a snapshot of the volume's current contents, created first;
			       * NULL: they are discarded */
};

struct pool_rollback_result {
	struct pool_volume volume;
	struct pool_snapshot snapshot;
	struct pool_snapshot kept; /* its change set is pending; the id is "" without keep_as */
};

/* Replaces the volume's contents by the snapshot's. The volume keeps its id and size:
 * bytes past the snapshot's size read as zeroes. All snapshots stay, and the next one
 * follows the last that was cut: in the line of snapshots a rollback is a write of old
 * bytes. If the process is killed at any point, the volume has either its old bytes or
 * the snapshot's. The record of an unfinished restore is removed, which requires
 * `keep_as` NULL: half a restore cannot become a snapshot.
 *
 * CAIRN_PRECONDITION  it is attached, or its file is open for writing; or it was deleted
 * CAIRN_EXISTS        a live snapshot has the name `keep_as`
 * CAIRN_NOT_FOUND     no such snapshot, or it was deleted
 */
int pool_volume_rollback(struct pool *pool, const struct pool_rollback_spec *spec,
			 struct pool_rollback_result *ret, struct cairn_err *err);

/* True in *ret while it is attached or mounted, is being read with
 * pool_snapshot_reader(), as by a backup, or is the temporary snapshot of a running
 * backup. */
int pool_snapshot_in_use(struct pool *pool, const char *snapshot, bool *ret, struct cairn_err *err);

/* Reasons to keep a snapshot: those of enum cairn_keep_reason, and these. */
enum pool_keep_reason {
	POOL_KEEP_NEWEST = CAIRN_KEEP_NEXT,      /* the newest one of a volume is always kept */
	POOL_KEEP_IN_USE = CAIRN_KEEP_NEXT << 1, /* see pool_snapshot_in_use() */
	POOL_KEEP_CLOCK = CAIRN_KEEP_NEXT << 2,  /* its time of creation is implausible */
};

/* The name of a single reason. */
const char *pool_keep_reason_text(unsigned reason);

struct pool_prune_spec {
	const char *volume; /* whose snapshots; name or id */
	struct cairn_keep_policy keep;
	bool dry_run; /* nothing is deleted */
	/* Called for each live snapshot, oldest first, with the reasons for keeping it; 0
	 * if it was deleted, or would be in a dry run. */
	int (*fn)(void *arg, const struct pool_snapshot *snapshot, unsigned reasons,
		  struct cairn_err *err);
	void *arg;
};

/* Deletes the snapshots of a volume that no rule keeps. A snapshot that cannot be
 * deleted is skipped, and the first such failure is returned at the end.
 *
 * CAIRN_INVALID  no rule is given
 */
int pool_snapshot_prune(struct pool *pool, const struct pool_prune_spec *spec,
			struct cairn_err *err);

#endif
