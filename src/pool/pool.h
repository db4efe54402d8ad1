/* SPDX-License-Identifier: Apache-2.0 */

/* A pool: volumes, their snapshots, and what changed between any two of them.
 *
 * This is the interface for the command line, the CSI services and the backup
 * tool. Behind it, store.h holds the bytes, catalogue.h the records, and files
 * in sets/ the change sets, one per snapshot against its predecessor.
 *
 * Names are user text (1 to 128 bytes of UTF-8 without control characters) and
 * never file names. Ids are assigned by the pool: "vol-…" and "snap-…", at most
 * 64 bytes, never reused. Wherever a name is accepted, so is an id; a snapshot
 * is written VOLUME@NAME or as its id alone.
 *
 * A snapshot's life:
 *   live       visible; its data can be read
 *   deleted    a tombstone: it can still be the base of a delta, for the
 *              retention time. Its data is kept only while a volume's next
 *              snapshot has to be compared with it.
 *   expired    merged into the snapshots after it and gone
 *
 * Thread-safe: any number of threads may use one pool. Operations that write
 * take the lock of the volume they work on; if another thread or process holds
 * it, they wait up to `lock_wait_ms` and then fail with CAIRN_ABORTED. There is
 * no global lock.
 */
#ifndef CAIRN_POOL_POOL_H
#define CAIRN_POOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/keep.h"
#include "block/extent.h"

struct cairn_err;
struct pool;
struct pool_delta;
struct store_progress;
struct store_reader;

#define POOL_DEFAULT_DIR          "/var/lib/cairn"
#define POOL_NAME_MAX             128U /* bytes, without the NUL */
#define POOL_RESTORING_MAX        64U  /* bytes of a backup's id that names an unfinished restore */
#define POOL_ID_MAX               64U  /* bytes, without the NUL */
#define POOL_SECTOR               512U /* a volume's size is a multiple of this */
#define POOL_VOLUME_SIZE_MAX      ((1ULL << 60)) /* what every back end can address */
#define POOL_GROUP_MAX            64U /* volumes in one group snapshot: frozen together */
#define POOL_RETENTION_DEFAULT_MS (90ULL * 24 * 3600 * 1000)
#define POOL_LOCK_WAIT_DEFAULT_MS 30000

/* CAIRN_INVALID for text that cannot be a name, or has the form of an id. `what`
 * is the kind of object, for the error text. */
int pool_name_check(const char *what, const char *name, struct cairn_err *err);

/* ---- the pool itself ---------------------------------------------------- */

enum pool_backend {
	POOL_BACKEND_AUTO,
	POOL_BACKEND_BTRFS,
	POOL_BACKEND_REFLINK,
	POOL_BACKEND_COPY,
};

struct pool_create_spec {
	const char *dir;
	enum pool_backend backend;
	uint64_t image_size;   /* of the loop-mounted image, if one is created; 0: automatic */
	bool thin;             /* the image may be larger than the space that is free */
	uint64_t retention_ms; /* 0: the default */
	uint32_t granularity;  /* 0: the default, 4096 */
};

/* The chosen back end, and one line that explains the choice. */
struct pool_create_result {
	const char *backend;
	bool image; /* a loop-mounted image was made */
	char reason[200];
};

/* CAIRN_EXISTS        the directory already holds a pool
 * CAIRN_NO_SPACE      an image of that size does not fit, and it is not `thin`
 * CAIRN_PRECONDITION  the back end that was asked for cannot work there, or the
 *                     directory is inside another pool
 * On failure everything created so far is removed again. */
int pool_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
		struct cairn_err *err);

/* Detaches, unmounts and removes everything that pool_create() and later calls
 * created, and nothing else: foreign files stay, and so does a directory that
 * existed before.
 *
 * CAIRN_PRECONDITION  a volume is mounted or open; nothing was removed
 */
int pool_destroy(const char *dir, struct cairn_err *err);

struct pool_open_spec {
	const char *dir;
	bool read_only;
	bool settle_later; /* the caller does it with pool_settle(): it may take long */
	bool for_check;    /* also when the marker or the catalogue's log is lost */
	uint64_t lock_wait_ms;
};

/* Opens a pool, mounts its image if necessary, and cleans up after killed
 * processes. A pool on a read-only filesystem is opened read-only
 * automatically.
 *
 * CAIRN_NOT_FOUND      not a pool; the text says how to create one
 * CAIRN_UNIMPLEMENTED  a newer version wrote it
 * CAIRN_DATA_LOSS      its files are damaged
 */
int pool_open(const struct pool_open_spec *spec, struct pool **ret, struct cairn_err *err);
/* Cleans up after killed processes, except where an operation is in
 * progress. */
int pool_settle(struct pool *pool, const struct store_progress *progress, struct cairn_err *err);
void pool_close(struct pool *pool);
CAIRN_DEFINE_CLEANUP(struct pool, pool_close);

/* Keeps a pool in use across fork(), which an open pool must not cross: until the
 * hold is released in parent and child, the pool cannot be destroyed and opening it
 * costs less. Close the pool before fork(). */
struct pool_hold {
	int lock_fd, index_fd; /* -1 where there is nothing to hold */
};
struct pool_hold pool_hold_take(struct pool *pool);
void pool_hold_release(struct pool_hold *hold);

/* The id that the pool was given when it was created; belongs to the pool. */
const char *pool_id(const struct pool *pool);

/* Its directory, an absolute path without links; belongs to the pool. */
const char *pool_directory(const struct pool *pool);

struct pool_info {
	char dir[4096];
	const char *backend;
	bool image;
	bool read_only;
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t volumes;
	uint64_t snapshots;
	uint64_t tombstones;
	uint64_t retention_ms;
	uint32_t granularity;
};

/* Counts all objects: for display, not for a hot path. */
int pool_info_get(struct pool *pool, struct pool_info *ret, struct cairn_err *err);

struct pool_space {
	uint64_t total_bytes;
	uint64_t free_bytes;
};

int pool_space_get(struct pool *pool, struct pool_space *ret, struct cairn_err *err);

/* ---- volumes ------------------------------------------------------------ */

struct pool_volume {
	char id[POOL_ID_MAX + 1];
	char name[POOL_NAME_MAX + 1];
	uint64_t size;
	uint64_t created_ns;
	char origin[POOL_ID_MAX + 1]; /* id of the snapshot it was made from, or "" */
	bool deleted;                 /* deleted, but snapshots of it remain */
	uint64_t retention_ms;        /* of its change sets */
	uint32_t granularity;         /* of its change sets */

	/* The backup whose restore to this volume was begun and is not finished, or "".
	 * Such a volume can be neither attached nor snapshotted, because it holds a
	 * mixture of old and restored data. */
	char restoring[POOL_RESTORING_MAX + 1];
};

struct pool_volume_spec {
	const char *name;
	uint64_t size;    /* 0 with `from`: the source's */
	const char *from; /* NULL, a volume, or a snapshot */

	/* NULL, or the backup that is about to be restored to the new volume. */
	const char *restoring;
};

/* CAIRN_EXISTS   the name is taken
 * CAIRN_INVALID  bad name or size (0, not a multiple of 512)
 * CAIRN_RANGE    the size is above the maximum or below the source's
 */
int pool_volume_create(struct pool *pool, const struct pool_volume_spec *spec,
		       struct pool_volume *ret, struct cairn_err *err);
int pool_volume_get(struct pool *pool, const char *volume, struct pool_volume *ret,
		    struct cairn_err *err);
/* In the order of ids; those whose id is above `after` ("" or NULL: all). */
int pool_volume_list(struct pool *pool, const char *after,
		     int (*fn)(void *arg, const struct pool_volume *volume, struct cairn_err *err),
		     void *arg, struct cairn_err *err);
/* Grows the volume; its current size is accepted. CAIRN_INVALID when it would
 * shrink. */
int pool_volume_expand(struct pool *pool, const char *volume, uint64_t size,
		       struct pool_volume *ret, struct cairn_err *err);

/* Settings of a volume's change sets that may be changed; 0 resets to the
 * pool's. */
struct pool_volume_settings {
	bool set_retention;
	uint64_t retention_ms; /* for snapshots deleted from now on */
	bool set_granularity;
	uint32_t granularity; /* for sets made from now on */
};

/* CAIRN_INVALID  the granularity is not a power of two within the limits */
int pool_volume_settings_check(const struct pool_volume_settings *settings, struct cairn_err *err);

/* CAIRN_INVALID  as above */
int pool_volume_modify(struct pool *pool, const char *volume,
		       const struct pool_volume_settings *settings, struct pool_volume *ret,
		       struct cairn_err *err);

/* Renames a volume; its id stays. Its current name is accepted.
 *
 * CAIRN_EXISTS   another volume has the name
 * CAIRN_INVALID  not a valid name
 */
int pool_volume_rename(struct pool *pool, const char *volume, const char *name,
		       struct pool_volume *ret, struct cairn_err *err);

enum pool_volume_delete_mode {
	POOL_DELETE_REFUSE,         /* CAIRN_PRECONDITION if there are live snapshots */
	POOL_DELETE_KEEP_SNAPSHOTS, /* they stay, reachable by id */
	POOL_DELETE_SNAPSHOTS,      /* they are deleted too */
};

/* CAIRN_PRECONDITION  attached, or see the mode */
int pool_volume_delete(struct pool *pool, const char *volume, enum pool_volume_delete_mode mode,
		       struct cairn_err *err);
int pool_volume_path(struct pool *pool, const char *volume, char **ret_path, struct cairn_err *err);
/* "" when it is not attached. */
int pool_volume_device(struct pool *pool, const char *volume, char *ret_device, size_t n,
		       struct cairn_err *err);
int pool_volume_attach(struct pool *pool, const char *volume, bool read_only, char *ret_device,
		       size_t n, struct cairn_err *err);
int pool_volume_detach(struct pool *pool, const char *volume, struct cairn_err *err);

/* Locks for a caller that writes to a volume's file; each is held until the
 * descriptor is closed. This one prevents attaching the volume.
 *
 * CAIRN_PRECONDITION  the volume is attached
 * CAIRN_ABORTED       another process is attaching or writing it
 */
int pool_volume_lock_file(struct pool *pool, const char *volume, int *ret_fd,
			  struct cairn_err *err);
/* Prevents snapshots, changes and deletion of the volume, also by the caller.
 *
 * CAIRN_ABORTED  another operation holds the lock
 */
int pool_volume_lock(struct pool *pool, const char *volume, int *ret_fd, struct cairn_err *err);

/* Records durably that the restore of `backup` to the volume has begun or, with NULL,
 * that the volume's contents are complete. The caller holds pool_volume_lock().
 *
 * CAIRN_INVALID  the text is too long or not printable
 */
int pool_volume_set_restoring(struct pool *pool, const char *volume, const char *backup,
			      struct cairn_err *err);

/* A fault of a volume that can be found without reading its data: its file or a
 * live snapshot's is missing, a change set is lost, or the pool's filesystem
 * cannot be written to or reached. The first one found is reported, in one
 * line. */
struct pool_condition {
	bool abnormal;
	char reason[240];
};

/* Costs a few lookups for each of the volume's snapshots. */
int pool_volume_health(struct pool *pool, const char *volume, struct pool_condition *ret,
		       struct cairn_err *err);

/* Bytes that the volume or snapshot has allocated. */
int pool_allocated_bytes(struct pool *pool, const char *volume_or_snapshot, uint64_t *ret,
			 struct cairn_err *err);

#define POOL_DEVICE_MAX 32  /* "/dev/loop" and digits */
#define POOL_MOUNT_MAX  256 /* a longer path is cut off */

struct pool_usage {
	uint64_t used_bytes;          /* blocks of its file, including those shared with others */
	char device[POOL_DEVICE_MAX]; /* "": not attached */
	char mounted[POOL_MOUNT_MAX]; /* where; "": not mounted, or in another namespace */
};

/* A list of the files that have loop devices, taken once: for listings. */
struct pool_attached;
int pool_attached_get(struct pool_attached **ret, struct cairn_err *err);
void pool_attached_free(struct pool_attached *attached);
CAIRN_DEFINE_CLEANUP(struct pool_attached, pool_attached_free);

/* Costs a few calls regardless of the size, and a search of all loop devices unless
 * `attached` shows that it has none. With `attached` NULL the search is always done. */
int pool_usage_get(struct pool *pool, const char *volume_or_snapshot,
		   const struct pool_attached *attached, struct pool_usage *ret,
		   struct cairn_err *err);

/* Bytes in extents that nothing else refers to: about the space that deleting only this
 * object frees. Exact to a block on XFS and with copies. On btrfs an extent that others use
 * in part is not counted. Walks the whole map, and on btrfs each extent costs a search for
 * other references. */
int pool_exclusive_bytes(struct pool *pool, const char *volume_or_snapshot, uint64_t *ret,
			 struct cairn_err *err);

/* ---- snapshots ---------------------------------------------------------- */

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
 * needed. CAIRN_CANCELLED when `progress` says so. */
int pool_snapshot_complete(struct pool *pool, const char *snapshot,
			   const struct store_progress *progress, struct cairn_err *err);

/* Finds live snapshots; and tombstones by id or, if no live snapshot has the
 * name, by name.
 *
 * CAIRN_NOT_FOUND     never existed in this pool
 * CAIRN_PRECONDITION  the id existed, but its retention time has passed
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
	struct pool_snapshot kept; /* id "" when there is none; its change set is pending */
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

/* ---- what changed ------------------------------------------------------- */

struct pool_delta_spec {
	const char *base;   /* NULL: report the allocated ranges of the target */
	const char *target; /* must be live */
	uint64_t starting_offset;
	const struct store_progress *progress; /* used while a pending set is computed */

	/* If no change sets connect the two, both are read and compared, if both are live and
	 * neither is larger than this; 0: never. Then pool_delta_next() reads data. */
	uint64_t compare_max;
};

struct pool_delta_info {
	struct pool_snapshot base; /* id "" when there is none */
	struct pool_snapshot target;
	uint64_t capacity; /* the target's own size */
	bool compared;     /* by reading both, not from change sets */
};

/* CAIRN_NOT_FOUND     no such snapshot
 * CAIRN_PRECONDITION  the base's retention time has passed, or a set on the way
 *                     was lost: do a full backup
 * CAIRN_INVALID       the base is newer than the target, or they are unrelated, and they are
 *                     not compared
 * CAIRN_RANGE         starting_offset is past the end (== capacity is fine)
 */
int pool_delta_open(struct pool *pool, const struct pool_delta_spec *spec, struct pool_delta **ret,
		    struct cairn_err *err);
void pool_delta_free(struct pool_delta *delta);
CAIRN_DEFINE_CLEANUP(struct pool_delta, pool_delta_free);

const struct pool_delta_info *pool_delta_info(const struct pool_delta *delta);

/* Up to `max` extents, ascending, not overlapping, from starting_offset on (the
 * first is clipped to it); *ret_n == 0 marks the end of a complete list. An
 * error is final, and the extents returned before it are incomplete. */
int pool_delta_next(struct pool_delta *delta, struct block_extent *out, size_t max, size_t *ret_n,
		    struct cairn_err *err);

/* ---- upkeep ------------------------------------------------------------- */

/* Merges at most `max` tombstones past their retention time. Creating and
 * deleting snapshots also merge a few each. */
int pool_expire(struct pool *pool, size_t max, size_t *ret_merged, struct cairn_err *err);

enum pool_fault_state {
	POOL_FAULT_FOUND, /* not repairing */
	POOL_FAULT_REPAIRED,
	POOL_FAULT_LOST, /* cannot be recovered; now recorded as lost */
};

struct pool_check_spec {
	bool repair;
	/* Called for each fault, with one line of text. */
	void (*fault)(void *arg, enum pool_fault_state state, const char *line);
	void *arg;
	const struct store_progress *progress;
};

struct pool_check_result {
	uint64_t volumes;
	uint64_t snapshots;
	uint64_t sets;
	uint64_t found;
	uint64_t repaired;
	uint64_t lost;
	uint64_t quarantined; /* objects in quarantine at the end */
};

/* Verifies every checksum and reference. Returns 0 when the check itself could
 * run; the result counts the faults. */
int pool_check(struct pool *pool, const struct pool_check_spec *spec, struct pool_check_result *ret,
	       struct cairn_err *err);

struct pool_data_result {
	uint64_t bytes; /* that were read */
	uint64_t faults;
};

/* Reads all allocated data of volumes and snapshots, which pool_check() does not. A fault
 * is an object that cannot be read completely, because a device fails or a checksum of
 * the filesystem does not match. Data in the page cache is not read from the device.
 * Nothing is repaired; spec->repair is ignored. */
int pool_read_data(struct pool *pool, const struct pool_check_spec *spec,
		   struct pool_data_result *ret, struct cairn_err *err);

/* Objects that repairs moved out of the way instead of removing them. */
enum pool_quarantine_kind {
	POOL_QUARANTINE_VOLUME,
	POOL_QUARANTINE_SNAPSHOT,
	POOL_QUARANTINE_SET,
	POOL_QUARANTINE_VALUE, /* the bytes of a damaged value of the catalogue */
};

struct pool_quarantined {
	enum pool_quarantine_kind kind;
	char id[POOL_ID_MAX + 1];
	char key[600];       /* of a value: where it stood */
	const uint8_t *data; /* of a value: its bytes, borrowed */
	size_t len;
};

/* A positive return of `fn` ends the listing. */
int pool_quarantine_list(struct pool *pool,
			 int (*fn)(void *arg, const struct pool_quarantined *item,
				   struct cairn_err *err),
			 void *arg, struct cairn_err *err);

/* Brings a volume or snapshot back, and creates a record for it if there is
 * none; `ret_text` describes the result. A change set is brought back if a
 * record still refers to it.
 *
 * CAIRN_NOT_FOUND     not in quarantine
 * CAIRN_EXISTS        an object of that id exists
 * CAIRN_PRECONDITION  it cannot be used: a set that no record refers to, or a value
 */
int pool_quarantine_restore(struct pool *pool, const char *id, char *ret_text, size_t n,
			    struct cairn_err *err);

/* Removes it permanently. CAIRN_NOT_FOUND: not in quarantine. */
int pool_quarantine_drop(struct pool *pool, const char *id, struct cairn_err *err);

#endif
