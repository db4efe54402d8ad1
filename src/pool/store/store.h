/* SPDX-License-Identifier: Apache-2.0 */

/* The data half of a pool: it holds the bytes of volumes and snapshots.
 *
 * One `const struct store_ops` per back end (btrfs, reflink, copy; a network
 * store such as RBD can fill it too), one `struct store` per open pool. Back
 * ends embed the instance as their first member. Callers use the store_*()
 * wrappers, never the table: they check arguments once, for every back end.
 *
 * Objects are named by the pool's own ids (lower-case letters, digits and
 * dashes), never by user text. A store keeps no catalogue and no state of its
 * own: the catalogue records what exists and why.
 *
 * Making and removing are idempotent: the caller retries after a crash without
 * knowing of the first attempt. Results are durable on return. A snapshot never
 * changes after it was cut: cutting under the id of an existing one is
 * CAIRN_EXISTS, because that one may lack data written before the second call.
 * After an interrupted cut the caller removes it and cuts again.
 *
 * Thread-safe: a store has no mutable state after open; the caller makes sure
 * that one object has one writer.
 */
#ifndef CAIRN_POOL_STORE_H
#define CAIRN_POOL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "block/extent.h"

struct cairn_err;
struct store;
struct store_reader;

enum store_kind {
	STORE_VOLUME,   /* writable */
	STORE_SNAPSHOT, /* immutable */
};

/* An object: which kind, and its id. */
struct store_ref {
	enum store_kind kind;
	const char *id;
};

/* Callbacks of a long operation; either may be NULL. `cancelled` is called
 * often; when it returns true the operation ends with CAIRN_CANCELLED. */
struct store_progress {
	void (*report)(void *arg, uint64_t done, uint64_t total);
	bool (*cancelled)(void *arg);
	void *arg;
};

struct store_delta_stats {
	uint64_t extents_walked; /* mapping entries examined, both sides */
	const char *method;      /* "tree", "send", "fiemap", "compare" */
};

struct store_usage {
	uint64_t total_bytes;
	uint64_t free_bytes;
};

/* The new contents of a volume: the snapshot's first `length` bytes, then zeros up to
 * `size`. */
struct store_replacement {
	const char *id, *snapshot_id;
	uint64_t length, size;

	/* Called when the new file is complete, right before the rename; `path` is its
	 * temporary path, NULL in a store without files. If it fails, the replacement is abandoned and changes nothing.
	 * May be NULL. */
	int (*ready)(void *arg, const char *path, struct cairn_err *err);
	void *arg;
};

struct store_ops {
	const char *name;

	/* Required. */
	void (*close)(struct store *store);
	int (*volume_create)(struct store *store, const char *id, uint64_t size,
			     struct cairn_err *err);
	/* A writable volume of `size` bytes: the snapshot's first `length`, then
	 * zeros. The snapshot's file may be longer; CAIRN_DATA_LOSS when it is
	 * shorter. */
	int (*volume_clone)(struct store *store, const char *id, const char *snapshot_id,
			    uint64_t length, uint64_t size, struct cairn_err *err);
	/* Grows; CAIRN_RANGE when `size` is less than the current size. */
	int (*volume_resize)(struct store *store, const char *id, uint64_t size,
			     struct cairn_err *err);
	/* Gives the volume the contents that volume_clone would create. It has its old
	 * data or the new, never a mixture, and keeps its path; the file is a new one.
	 * The old file must not be open. Superfluous files remain for volume_sweep. */
	int (*volume_replace)(struct store *store, const struct store_replacement *spec,
			      struct cairn_err *err);
	/* Removes files that volume_replace left, whether it succeeded, failed
	 * or was interrupted. The volume itself is not changed. */
	int (*volume_sweep)(struct store *store, const char *id, struct cairn_err *err);
	/* Also removes remains of an interrupted create; a missing object is
	 * not an error. */
	int (*remove)(struct store *store, struct store_ref ref, struct cairn_err *err);
	/* Cuts a snapshot of the volume's first `size` bytes: it contains
	 * everything written before the call, and is one point in time if
	 * `cut_is_atomic` is set. The caller has flushed devices and frozen
	 * filesystems above. CAIRN_DATA_LOSS when the volume is shorter. */
	int (*snapshot_cut)(struct store *store, const char *volume_id, const char *snapshot_id,
			    uint64_t size, struct cairn_err *err);
	/* Emits every range in which the target may differ from the base, never
	 * too few, up to the target's size (including its growth). Both
	 * snapshots must exist until this returns. */
	int (*delta)(struct store *store, const char *base_id, const char *target_id,
		     struct block_sink sink, const struct store_progress *progress,
		     struct store_delta_stats *ret_stats, struct cairn_err *err);
	/* Fills `out` with up to `max` allocated ranges that end after `start`,
	 * ascending, the first one clipped to it, touching ones allowed; *ret_n
	 * == 0: end. Holes and unwritten preallocation are omitted. */
	int (*allocated)(struct store *store, struct store_ref ref, uint64_t start,
			 struct block_extent *out, size_t max, size_t *ret_n,
			 struct cairn_err *err);
	int (*size)(struct store *store, struct store_ref ref, uint64_t *ret_size,
		    struct cairn_err *err);
	int (*usage)(struct store *store, struct store_usage *ret, struct cairn_err *err);
	/* Calls `fn` for every object of the kind, known to the catalogue or not,
	 * including half-created and half-removed ones; for checks only. A
	 * negative return of `fn` ends the listing and is returned. */
	int (*list)(struct store *store, enum store_kind kind,
		    int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		    struct cairn_err *err);
	/* Quarantine, for checks: moves a complete object out of the way, so that
	 * no other operation sees it. CAIRN_NOT_FOUND when there is none,
	 * CAIRN_EXISTS when quarantine already has one of that id. */
	int (*set_aside)(struct store *store, struct store_ref ref, struct cairn_err *err);
	/* The reverse: CAIRN_NOT_FOUND when it is not in quarantine,
	 * CAIRN_EXISTS when an object of that id exists. */
	int (*bring_back)(struct store *store, struct store_ref ref, struct cairn_err *err);
	/* Removes it from quarantine; a missing one is not an error. */
	int (*drop_aside)(struct store *store, struct store_ref ref, struct cairn_err *err);
	/* Like `list`, for objects in quarantine. */
	int (*list_aside)(struct store *store, enum store_kind kind,
			  int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			  struct cairn_err *err);
	/* Reads like pread(); short only at the end. One reader, one thread. */
	int (*reader_open)(struct store *store, struct store_ref ref, struct store_reader **ret,
			   struct cairn_err *err);

	/* Optional. The path of the backing file, for stores that have files;
	 * owned by the caller. */
	int (*path)(struct store *store, struct store_ref ref, char **ret_path,
		    struct cairn_err *err);

	/* Optional; without it, the blocks of the file at `path`. Bytes that the object
	 * takes, including those that it shares. */
	int (*used)(struct store *store, struct store_ref ref, uint64_t *ret,
		    struct cairn_err *err);

	/* Optional. Begins a cut while writers continue, so that the cut itself blocks
	 * them for less time. Its remains are removed with the snapshot, as after an
	 * interrupted cut. */
	int (*snapshot_prepare)(struct store *store, const char *volume_id, const char *snapshot_id,
				struct cairn_err *err);

	/* Optional. Gives data that the storage holds under another name the id of a volume,
	 * and the reverse. Codes of pool_volume_adopt(). */
	int (*volume_adopt)(struct store *store, const char *id, const char *image,
			    uint64_t *ret_size, struct cairn_err *err);
	int (*volume_disown)(struct store *store, const char *id, const char *image,
			     struct cairn_err *err);

	/* False if snapshot_cut copies while others may write (copy): the
	 * caller then cuts a volume twice that is in use and not frozen. */
	bool cut_is_atomic;
};

struct store {
	const struct store_ops *ops;
	bool writable; /* false: operations that change objects return CAIRN_PRECONDITION */
};

struct store_reader_ops {
	int (*read)(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
		    size_t *ret_n, struct cairn_err *err);
	void (*free)(struct store_reader *reader);

	/* Optional. Starts reading these bytes ahead, without waiting. */
	void (*ahead)(struct store_reader *reader, uint64_t offset, uint64_t n);
};

struct store_reader {
	const struct store_reader_ops *ops;
};

#define STORE_ID_MAX   64U          /* bytes of an id, without the NUL */
#define STORE_SIZE_MAX (1ULL << 60) /* what every back end can address */

/* Opens the store in `dir` (its objects live in dir/volumes and dir/snapshots,
 * which are created if missing and `writable`). `backend` is "btrfs", "reflink"
 * or "copy".
 *
 * CAIRN_INVALID       unknown back end
 * CAIRN_PRECONDITION  the filesystem or permissions that it needs are missing
 */
int pool_store_open(const char *backend, const char *dir, bool writable, struct store **ret,
		    struct cairn_err *err);

/* Opens a new store: also tests the features that the back end needs, so that
 * opening it later neither writes nor needs space. Codes as above. */
int pool_store_make(const char *backend, const char *dir, struct store **ret,
		    struct cairn_err *err);
void pool_store_close(struct store *store);
CAIRN_DEFINE_CLEANUP(struct store, pool_store_close);

const char *pool_store_backend(const struct store *store);

int pool_store_volume_create(struct store *store, const char *id, uint64_t size,
			     struct cairn_err *err);
/* CAIRN_RANGE  `size` is below `length` */
int pool_store_volume_clone(struct store *store, const char *id, const char *snapshot_id,
			    uint64_t length, uint64_t size, struct cairn_err *err);
int pool_store_volume_adopt(struct store *store, const char *id, const char *image,
			    uint64_t *ret_size, struct cairn_err *err);
int pool_store_volume_disown(struct store *store, const char *id, const char *image,
			     struct cairn_err *err);
int pool_store_volume_resize(struct store *store, const char *id, uint64_t size,
			     struct cairn_err *err);
/* CAIRN_RANGE  `size` is below `length` */
int pool_store_volume_replace(struct store *store, const struct store_replacement *spec,
			      struct cairn_err *err);
int pool_store_volume_sweep(struct store *store, const char *id, struct cairn_err *err);
int pool_store_remove(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_store_snapshot_cut(struct store *store, const char *volume_id, const char *snapshot_id,
			    uint64_t size, struct cairn_err *err);
/* Succeeds without effect if the back end has nothing to prepare. */
int pool_store_snapshot_prepare(struct store *store, const char *volume_id, const char *snapshot_id,
				struct cairn_err *err);
int pool_store_delta(struct store *store, const char *base_id, const char *target_id,
		     struct block_sink sink, const struct store_progress *progress,
		     struct store_delta_stats *ret_stats, struct cairn_err *err);
int pool_store_allocated(struct store *store, struct store_ref ref, uint64_t start,
			 struct block_extent *out, size_t max, size_t *ret_n,
			 struct cairn_err *err);
int pool_store_size(struct store *store, struct store_ref ref, uint64_t *ret_size,
		    struct cairn_err *err);
int pool_store_usage_get(struct store *store, struct store_usage *ret, struct cairn_err *err);
int pool_store_list(struct store *store, enum store_kind kind,
		    int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		    struct cairn_err *err);
int pool_store_set_aside(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_store_bring_back(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_store_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_store_list_aside(struct store *store, enum store_kind kind,
			  int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			  struct cairn_err *err);
int pool_store_path(struct store *store, struct store_ref ref, char **ret_path,
		    struct cairn_err *err);

int pool_store_reader_open(struct store *store, struct store_ref ref, struct store_reader **ret,
			   struct cairn_err *err);
int pool_store_reader_read(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
			   size_t *ret_n, struct cairn_err *err);
void pool_store_reader_ahead(struct store_reader *reader, uint64_t offset, uint64_t n);
void pool_store_reader_free(struct store_reader *reader);
CAIRN_DEFINE_CLEANUP(struct store_reader, pool_store_reader_free);

#endif
