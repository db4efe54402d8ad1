/* SPDX-License-Identifier: Apache-2.0 */

/* A pool: volumes, their snapshots, and what changed between any two of them.
 *
 * This is the face that the command line, the CSI services and the backup tool
 * use. Behind it: store.h holds the bytes, catalogue.h the records, and files
 * in sets/ the change sets, one per snapshot against its predecessor.
 *
 * Names are user text (1 to 128 bytes of UTF-8 without control characters) and
 * never file names. Ids are ours: "vol-…" and "snap-…", at most 64 bytes, never
 * used twice. Wherever a name is taken an id is taken too; a snapshot is then
 * written VOLUME@NAME or as its id alone.
 *
 * A snapshot's life:
 *   live       visible; its data can be read
 *   deleted    a tombstone: its change set still answers as base, for the
 *              retention time. Its data is kept only while a volume's next
 *              snapshot has to be compared with it.
 *   expired    merged into the snapshots after it and gone
 *
 * Thread-safe: any number of threads may use one pool. Operations that write
 * take the lock of the volume they work on; another holder, in this process or
 * another, means waiting up to `lock_wait_ms`, then CAIRN_ABORTED. There is no
 * global lock.
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
#define POOL_RESTORING_MAX        64U  /* bytes that name an unfinished restore: a backup's id */
#define POOL_ID_MAX               64U  /* bytes, without the NUL */
#define POOL_SECTOR               512U /* a volume's size is a multiple of this */
#define POOL_VOLUME_SIZE_MAX      ((1ULL << 60)) /* what every back end can address */
#define POOL_GROUP_MAX            64U /* volumes in one point in time: they are frozen together */
#define POOL_RETENTION_DEFAULT_MS (90ULL * 24 * 3600 * 1000)
#define POOL_LOCK_WAIT_DEFAULT_MS 30000

/* CAIRN_INVALID for what can be no name, or has the form of an id. `what` says in
 * the text what it is the name of. */
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
	uint64_t image_size;   /* of the loop-mounted image, where one is made; 0: chosen */
	bool thin;             /* the image may be larger than the space that is free now */
	uint64_t retention_ms; /* 0: the default */
	uint32_t granularity;  /* 0: the default, 4096 */
};

/* What was chosen, and the one line that says why. */
struct pool_create_result {
	const char *backend;
	bool image; /* a loop-mounted image was made */
	char reason[200];
};

/* CAIRN_EXISTS        there is a pool in that directory already
 * CAIRN_NO_SPACE      an image of that size does not fit, and it is not `thin`
 * CAIRN_PRECONDITION  the back end that was asked for cannot work there, or the
 *                     directory is inside another pool
 * On failure everything made so far is removed again. */
int pool_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
		struct cairn_err *err);

/* Detaches, unmounts and removes what pool_create() and later calls made, and
 * nothing else: foreign files stay, and so does a directory that was there
 * before.
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

/* Opens, mounting the image if it is not mounted and cleaning what a killed
 * process left. A pool on a read-only filesystem opens read-only by itself.
 *
 * CAIRN_NOT_FOUND      no pool there; the text says how to make one
 * CAIRN_UNIMPLEMENTED  a newer version wrote it
 * CAIRN_DATA_LOSS      its files are damaged
 */
int pool_open(const struct pool_open_spec *spec, struct pool **ret, struct cairn_err *err);
/* Cleans what a killed process left and nobody is working on. */
int pool_settle(struct pool *pool, const struct store_progress *progress, struct cairn_err *err);
void pool_close(struct pool *pool);
CAIRN_DEFINE_CLEANUP(struct pool, pool_close);

/* Keeps a pool in use across fork(), which an open pool must not cross: until it is
 * released in parent and child the pool is not destroyed, and opening it costs less.
 * The pool is to be closed before fork(). */
struct pool_hold {
	int lock_fd, index_fd; /* -1 where there is nothing to hold */
};
struct pool_hold pool_hold_take(struct pool *pool);
void pool_hold_release(struct pool_hold *hold);

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

/* Counts everything: for people, not for a hot path. */
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
	bool deleted;                 /* gone, but snapshots of it live on */
	uint64_t retention_ms;        /* of its change sets */
	uint32_t granularity;         /* of its change sets */

	/* The backup whose restore to this volume was begun and is not finished, or "".
	 * Such a volume is neither attached nor snapshotted: what it holds is half of
	 * one thing and half of another. */
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
/* Grows; the same size again is fine. CAIRN_INVALID when it would shrink. */
int pool_volume_expand(struct pool *pool, const char *volume, uint64_t size,
		       struct pool_volume *ret, struct cairn_err *err);

/* What may be changed about a volume's change sets; 0 goes back to the pool's. */
struct pool_volume_settings {
	bool set_retention;
	uint64_t retention_ms; /* for snapshots deleted from now on */
	bool set_granularity;
	uint32_t granularity; /* for sets made from now on */
};

/* CAIRN_INVALID  the granularity is no power of two within the limits */
int pool_volume_settings_check(const struct pool_volume_settings *settings, struct cairn_err *err);

/* CAIRN_INVALID  as above */
int pool_volume_modify(struct pool *pool, const char *volume,
		       const struct pool_volume_settings *settings, struct pool_volume *ret,
		       struct cairn_err *err);

/* Gives a volume another name; its id stays. The name it has is fine.
 *
 * CAIRN_EXISTS   another volume has the name
 * CAIRN_INVALID  it can be no name
 */
int pool_volume_rename(struct pool *pool, const char *volume, const char *name,
		       struct pool_volume *ret, struct cairn_err *err);

enum pool_volume_delete_mode {
	POOL_DELETE_REFUSE,         /* live snapshots are CAIRN_PRECONDITION */
	POOL_DELETE_KEEP_SNAPSHOTS, /* they stay, reachable by id */
	POOL_DELETE_SNAPSHOTS,      /* they go too */
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

/* For whoever writes to a volume's file; each holds until the descriptor is
 * closed. Nobody attaches it:
 *
 * CAIRN_PRECONDITION  it is attached
 * CAIRN_ABORTED       somebody else is attaching or writing it
 */
int pool_volume_lock_file(struct pool *pool, const char *volume, int *ret_fd,
			  struct cairn_err *err);
/* Nobody cuts, changes or deletes it; nor does the caller.
 *
 * CAIRN_ABORTED  somebody else is at that
 */
int pool_volume_lock(struct pool *pool, const char *volume, int *ret_fd, struct cairn_err *err);

/* Records durably that the restore of `backup` to the volume has begun or, with NULL,
 * that what the volume holds is whole. The caller holds pool_volume_lock().
 *
 * CAIRN_INVALID  the text is too long or not printable
 */
int pool_volume_set_restoring(struct pool *pool, const char *volume, const char *backup,
			      struct cairn_err *err);

/* What is known to be wrong with a volume without reading its data: its file or
 * a live snapshot's is missing, a change set is lost, the pool's filesystem can
 * not be written to or reached. The first one found is reported, in one line. */
struct pool_condition {
	bool abnormal;
	char reason[240];
};

/* Costs a few look-ups for each of the volume's snapshots. */
int pool_volume_condition(struct pool *pool, const char *volume, struct pool_condition *ret,
			  struct cairn_err *err);

/* Bytes that the volume or snapshot has allocated. */
int pool_allocated_bytes(struct pool *pool, const char *volume_or_snapshot, uint64_t *ret,
			 struct cairn_err *err);

#define POOL_DEVICE_MAX 32  /* "/dev/loop" and digits */
#define POOL_MOUNT_MAX  256 /* a longer path is cut off */

struct pool_usage {
	uint64_t used_bytes;          /* blocks of its file, also those that others share with it */
	char device[POOL_DEVICE_MAX]; /* "": not attached */
	char mounted[POOL_MOUNT_MAX]; /* where; "": not mounted, or in another namespace */
};

/* Which files have loop devices, at one moment: for listings. */
struct pool_attached;
int pool_attached_get(struct pool_attached **ret, struct cairn_err *err);
void pool_attached_free(struct pool_attached *attached);
CAIRN_DEFINE_CLEANUP(struct pool_attached, pool_attached_free);

/* Costs a few calls, however large it is, and a look at all loop devices where `attached`
 * does not show that it has none; NULL: always. */
int pool_usage_get(struct pool *pool, const char *volume_or_snapshot,
		   const struct pool_attached *attached, struct pool_usage *ret,
		   struct cairn_err *err);

/* Bytes in extents that nothing else refers to: about what deleting only this one frees.
 * Exact to a block on XFS and with copies. On btrfs an extent of which others use a part is
 * not counted. Walks the whole map, and on btrfs each extent costs a search for others. */
int pool_exclusive_bytes(struct pool *pool, const char *volume_or_snapshot, uint64_t *ret,
			 struct cairn_err *err);

/* ---- snapshots ---------------------------------------------------------- */

enum pool_set_state {
	POOL_SET_NONE,    /* first of its line: nothing to compare with */
	POOL_SET_PENDING, /* cut, not compared yet */
	POOL_SET_READY,
	POOL_SET_LOST, /* damaged and not to be had again */
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
 * durable; change sets are recorded as pending: call
 * pool_snapshot_complete() for each, now or behind the acknowledgement.
 * `ret` has room for `n`.
 *
 * CAIRN_EXISTS   a live snapshot of that volume has the name
 * CAIRN_ABORTED  a raw volume kept changing, or the freeze expired
 */
int pool_snapshot_create(struct pool *pool, const struct pool_snapshot_spec *specs, size_t n,
			 struct pool_snapshot *ret, struct cairn_err *err);

/* Makes the snapshot's change set if it is pending; waits if somebody else is
 * at it; then frees data that only this comparison still needed.
 * CAIRN_CANCELLED when `progress` says so. */
int pool_snapshot_complete(struct pool *pool, const char *snapshot,
			   const struct store_progress *progress, struct cairn_err *err);

/* Finds live ones, and tombstones by id or, where no live one has the name, by
 * name.
 *
 * CAIRN_NOT_FOUND     never existed here
 * CAIRN_PRECONDITION  an id that did, past its retention time
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

/* Gives a live snapshot another name within its volume; its id stays. A deleted one that
 * had the name can be found by its id only.
 *
 * CAIRN_EXISTS   another live snapshot of the volume has the name
 * CAIRN_INVALID  it can be no name
 */
int pool_snapshot_rename(struct pool *pool, const char *snapshot, const char *name,
			 struct pool_snapshot *ret, struct cairn_err *err);

/* Turns it into a tombstone; waits for change sets that still need its data.
 * CAIRN_PRECONDITION when it is attached. */
int pool_snapshot_delete(struct pool *pool, const char *snapshot, struct cairn_err *err);
int pool_snapshot_path(struct pool *pool, const char *snapshot, char **ret_path,
		       struct cairn_err *err);
int pool_snapshot_device(struct pool *pool, const char *snapshot, char *ret_device, size_t n,
			 struct cairn_err *err);
int pool_snapshot_attach(struct pool *pool, const char *snapshot, char *ret_device, size_t n,
			 struct cairn_err *err);
int pool_snapshot_detach(struct pool *pool, const char *snapshot, struct cairn_err *err);

/* The data of a live snapshot. */
int pool_snapshot_reader(struct pool *pool, const char *snapshot, struct store_reader **ret,
			 struct cairn_err *err);

struct pool_rollback_spec {
	const char *snapshot; /* a live one of the volume */
	const char *keep_as;  /* name of a snapshot of what the volume holds now, which is made
			       * first; NULL: that is given up */
};

struct pool_rollback_result {
	struct pool_volume volume;
	struct pool_snapshot snapshot;
	struct pool_snapshot kept; /* id "" when there is none; its change set is pending */
};

/* The volume holds what the snapshot does, and keeps its id and size: what lies past the
 * snapshot's reads as zeroes. All snapshots stay, and the next one follows the last that
 * was cut: to the line of snapshots a rollback is a write of old bytes. Killed at any
 * point, the volume has its old bytes or the snapshot's. An unfinished restore to it is
 * forgotten, which needs `keep_as` NULL: half a restore cannot be a snapshot.
 *
 * CAIRN_PRECONDITION  it is attached, or its file is open for writing; or it was deleted
 * CAIRN_EXISTS        a live snapshot has the name `keep_as`
 * CAIRN_NOT_FOUND     no such snapshot, or it was deleted
 */
int pool_volume_rollback(struct pool *pool, const struct pool_rollback_spec *spec,
			 struct pool_rollback_result *ret, struct cairn_err *err);

/* True in *ret while it is attached or mounted, or somebody reads it with
 * pool_snapshot_reader(), as a backup does, or a running backup cut it for itself. */
int pool_snapshot_in_use(struct pool *pool, const char *snapshot, bool *ret, struct cairn_err *err);

/* Why a snapshot is kept: those of enum cairn_keep_reason, and these. */
enum pool_keep_reason {
	POOL_KEEP_NEWEST = CAIRN_KEEP_NEXT,      /* the last one of a volume stays */
	POOL_KEEP_IN_USE = CAIRN_KEEP_NEXT << 1, /* see pool_snapshot_in_use() */
	POOL_KEEP_CLOCK = CAIRN_KEEP_NEXT << 2,  /* its time cannot be right */
};

/* The name of a single reason. */
const char *pool_keep_reason_text(unsigned reason);

struct pool_prune_spec {
	const char *volume; /* whose snapshots; name or id */
	struct cairn_keep_policy keep;
	bool dry_run; /* nothing is deleted */
	/* Called for each live snapshot, the oldest first: why it is kept, 0 where it was
	 * deleted, or would be. */
	int (*fn)(void *arg, const struct pool_snapshot *snapshot, unsigned reasons,
		  struct cairn_err *err);
	void *arg;
};

/* Deletes the snapshots of a volume that no rule keeps. One that cannot be deleted is
 * passed over, and the first such failure is returned at the end.
 *
 * CAIRN_INVALID  there is no rule
 */
int pool_snapshot_prune(struct pool *pool, const struct pool_prune_spec *spec,
			struct cairn_err *err);

/* ---- what changed ------------------------------------------------------- */

struct pool_delta_spec {
	const char *base;   /* NULL: what is allocated in the target */
	const char *target; /* must be live */
	uint64_t starting_offset;
	const struct store_progress *progress; /* while a pending set is made */
};

struct pool_delta_info {
	struct pool_snapshot base; /* id "" when there is none */
	struct pool_snapshot target;
	uint64_t capacity; /* the target's own size */
};

/* CAIRN_NOT_FOUND     no such snapshot
 * CAIRN_PRECONDITION  the base's retention time has passed, or a set on the way
 *                     was lost: do a full backup
 * CAIRN_INVALID       the base is newer than the target, or they are unrelated
 * CAIRN_RANGE         starting_offset is past the end (== capacity is fine)
 */
int pool_delta_open(struct pool *pool, const struct pool_delta_spec *spec, struct pool_delta **ret,
		    struct cairn_err *err);
void pool_delta_free(struct pool_delta *delta);
CAIRN_DEFINE_CLEANUP(struct pool_delta, pool_delta_free);

const struct pool_delta_info *pool_delta_info(const struct pool_delta *delta);

/* Up to `max` extents, ascending, not overlapping, from starting_offset on
 * (the first is clipped to it); *ret_n == 0 is the complete end. An error is
 * final, and what came before it is then not complete. */
int pool_delta_next(struct pool_delta *delta, struct block_extent *out, size_t max, size_t *ret_n,
		    struct cairn_err *err);

/* ---- upkeep ------------------------------------------------------------- */

/* Merges tombstones past their retention time, at most `max` of them. Also
 * done in small doses by snapshot create and delete. */
int pool_expire(struct pool *pool, size_t max, size_t *ret_merged, struct cairn_err *err);

enum pool_fault_state {
	POOL_FAULT_FOUND, /* not repairing */
	POOL_FAULT_REPAIRED,
	POOL_FAULT_LOST, /* cannot be had again; now recorded as lost */
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
	uint64_t quarantined; /* objects in quarantine when it ended */
};

/* Verifies every checksum and reference. Returns 0 when the check itself could
 * run; the result counts what it found. */
int pool_check(struct pool *pool, const struct pool_check_spec *spec, struct pool_check_result *ret,
	       struct cairn_err *err);

struct pool_data_result {
	uint64_t bytes; /* that were read */
	uint64_t faults;
};

/* Reads all data of volumes and snapshots that is allocated, which pool_check() does not:
 * a fault is an object of which something cannot be read, because a device fails or a
 * checksum of the file system does not fit. What the system holds in memory is not read
 * from the device. Nothing is repaired; spec->repair is not looked at. */
int pool_read_data(struct pool *pool, const struct pool_check_spec *spec,
		   struct pool_data_result *ret, struct cairn_err *err);

/* What repairs took out of the way instead of removing it. */
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

/* A positive return of `fn` ends it. */
int pool_quarantine_list(struct pool *pool,
			 int (*fn)(void *arg, const struct pool_quarantined *item,
				   struct cairn_err *err),
			 void *arg, struct cairn_err *err);

/* Brings a volume or snapshot back, and makes a record for it where there is
 * none; `ret_text` says what it is then. A change set comes back where a record
 * still wants it.
 *
 * CAIRN_NOT_FOUND     not in quarantine
 * CAIRN_EXISTS        there is another one of that id
 * CAIRN_PRECONDITION  it can not be used: a set that no record wants, a value
 */
int pool_quarantine_restore(struct pool *pool, const char *id, char *ret_text, size_t n,
			    struct cairn_err *err);

/* Removes it for good. CAIRN_NOT_FOUND: not in quarantine. */
int pool_quarantine_drop(struct pool *pool, const char *id, struct cairn_err *err);

#endif
