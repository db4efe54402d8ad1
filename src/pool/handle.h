/* SPDX-License-Identifier: Apache-2.0 */

/* What an open pool is made of, and its locks. For the files of this directory
 * that make up pool.h.
 *
 * Locks, all in the file `lock` and dropped by the kernel when their holder
 * dies. Order: the pool, then a merge, then volumes (ascending), then a set.
 *   pool    shared by everyone who has it open; exclusive to create and destroy
 *   volume  whoever changes the volume, its snapshots or who depends on them
 *   merge   whoever merges a tombstone, and waits for sets before it does
 *   set     whoever makes or rewrites a snapshot's change set
 *   temporary  held as long as a process lives that has temporary snapshots
 * Records are protected by expectation (ledger.h), so a reader needs no lock.
 */
#ifndef CAIRN_POOL_HANDLE_H
#define CAIRN_POOL_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/marker.h"
#include "pool/pool.h"
#include "pool/record.h"
#include "pool/store.h"

struct cairn_err;
struct catalogue;
struct catalogue_batch;

#define POOL_LOCK_NAME  "lock"
#define POOL_IMAGE_NAME "pool.img"
#define POOL_MOUNT_NAME "data"
#define POOL_SETS_NAME  "sets"

/* Space that only freeing may use; see reserve.h. */
#define POOL_RESERVE_NAME "reserve"

/* How often a commit is tried again when another process was faster. */
#define POOL_COMMIT_TRIES 100

/* How long a pool that is to be destroyed may still be in use. */
#define POOL_DESTROY_WAIT_MS 5000

struct pool {
	char *dir;  /* as given, made absolute */
	char *root; /* where the data is: dir, or the mounted image in it */
	int dir_fd;
	int root_fd;
	int sets_fd;
	int lock_fd;       /* holds the pool lock, shared */
	bool read_only;    /* for this caller */
	bool read_only_fs; /* for everybody */
	uint64_t lock_wait_ms;
	struct marker marker;
	char *marker_fault; /* opened for a check: what is wrong with the file */
	struct catalogue *cat;
	struct store *store;
};

/* The lock file may be removed with the pool while this waits for it: the lock
 * that is returned is the one that others find under its name.
 *
 * CAIRN_NOT_FOUND  the directory itself is gone
 */
int handle_lock_pool(int dir_fd, bool exclusive, uint64_t wait_ms, int *ret_fd,
		     struct cairn_err *err);
int handle_lock_volume(struct pool *pool, uint64_t volume, uint64_t wait_ms, int *ret_fd,
		       struct cairn_err *err);
int handle_lock_set(struct pool *pool, uint64_t number, uint64_t wait_ms, int *ret_fd,
		    struct cairn_err *err);

/* Does not wait. */
int handle_lock_merge(struct pool *pool, uint64_t number, int *ret_fd, struct cairn_err *err);

/* The lock of a process that has temporary snapshots (temporary.h). Does not wait. */
#define HANDLE_TEMPORARY_MASK ((1ULL << 60) - 1)
int handle_lock_temporary(struct pool *pool, uint64_t number, int *ret_fd, struct cairn_err *err);

/* CAIRN_PRECONDITION on a read-only pool. */
int handle_check_writable(const struct pool *pool, struct cairn_err *err);

/* A volume's size: above 0, a multiple of a sector, at most the maximum. */
int handle_check_size(uint64_t size, struct cairn_err *err);
int handle_check_granularity(uint32_t granularity, struct cairn_err *err);

/* The size of an object's data, which may be more than its record says: an
 * expansion that failed, or a file grown by hand. What lies past the recorded
 * size does not belong to it. CAIRN_DATA_LOSS when it is less. */
int handle_data_size(struct pool *pool, struct store_ref ref, uint64_t recorded, uint64_t *ret,
		     struct cairn_err *err);

/* Finds by id or by name. Deleted volumes only by id. */
int handle_find_volume(struct pool *pool, const char *text, struct record_volume *ret,
		       struct cairn_err *err);

/* The same, but CAIRN_NOT_FOUND for a deleted one; its id too. */
int handle_find_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			    char id[POOL_ID_MAX + 1], struct cairn_err *err);

/* What may name a restore: pool_volume_set_restoring(). */
int handle_check_restoring(const char *backup, struct cairn_err *err);

/* CAIRN_PRECONDITION when a restore to the volume is not finished. */
int handle_check_whole(const struct record_volume *volume, struct cairn_err *err);

/* Locks a volume that is not deleted and gives its record as it is under the lock.
 * Its name may be another's by then, so only the id is good from here on.
 *
 * CAIRN_ABORTED  somebody else holds it for longer than `lock_wait_ms`
 */
int handle_lock_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			    char id[POOL_ID_MAX + 1], int *ret_fd, struct cairn_err *err);

/* The same for a snapshot that is not deleted: the lock is its volume's. */
int handle_lock_live_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
			      int *ret_fd, struct cairn_err *err);

/* Commits the changed record of a volume, durably.
 *
 * CAIRN_ABORTED  the record is not `old` any more
 */
int handle_commit_volume(struct pool *pool, const struct record_volume *old,
			 const struct record_volume *now, struct cairn_err *err);

/* A volume's own settings, or the pool's. */
uint64_t handle_retention_ms(const struct pool *pool, const struct record_volume *volume);
uint32_t handle_granularity(const struct pool *pool, const struct record_volume *volume);
/* When a snapshot of it that is deleted now expires. */
uint64_t handle_expiry_ns(const struct pool *pool, const struct record_volume *volume);

/* As pool_snapshot_get() describes. */
int handle_find_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
			 struct cairn_err *err);
/* The same, but CAIRN_NOT_FOUND for a tombstone. */
int handle_find_live_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
			      struct cairn_err *err);

void handle_fill_volume(const struct pool *pool, const struct record_volume *record,
			struct pool_volume *ret);
/* Cannot fail: for after a commit. */
void handle_fill_snapshot_of(const struct record_volume *volume,
			     const struct record_snapshot *record, struct pool_snapshot *ret);
int handle_fill_snapshot(struct pool *pool, const struct record_snapshot *record,
			 struct pool_snapshot *ret, struct cairn_err *err);

#endif
