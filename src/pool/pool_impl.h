/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of an open pool, and its locks. Internal to the files of this
 * directory that implement pool.h.
 *
 * Locks (locks.h), in a directory all in the file `lock` and dropped by the kernel when
 * their holder dies. Order: the pool, then a merge, then volumes (ascending), then a set.
 *   pool    shared by every process that has it open; exclusive to create and destroy
 *   volume  to change the volume, its snapshots, or what depends on them
 *   merge   to merge a tombstone, including the wait for sets before it
 *   set     to compute or rewrite a snapshot's change set
 *   temporary  held while a process that has temporary snapshots lives
 * Records are protected by expectation (ledger.h), so a reader needs no lock.
 */
#ifndef CAIRN_POOL_HANDLE_H
#define CAIRN_POOL_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/catalogue/record.h"
#include "pool/pool.h"
#include "pool/pool_config.h"
#include "pool/store/store.h"

struct attacher;
struct blobs;
struct cairn_err;
struct catalogue;
struct catalogue_batch;
struct locks;
struct pool_site_ops;

#define POOL_LOCK_NAME  "lock"
#define POOL_IMAGE_NAME "pool.img"
#define POOL_MOUNT_NAME "data"
#define POOL_SETS_NAME  "sets"

/* Space that only operations that free space may use; see reserve.h. */
#define POOL_RESERVE_NAME "reserve"

/* How often a commit is retried when another process committed first. */
#define POOL_COMMIT_TRIES 100

/* How long pool_destroy() waits for other users of the pool. */
#define POOL_DESTROY_WAIT_MS 5000

struct pool {
	const struct pool_site_ops *site;
	void *site_data; /* of the site */
	char *dir;       /* as given, made absolute */
	char *root;      /* directory of the data: dir, or the mounted image in it */
	int dir_fd;      /* -1 where the pool is not in a directory; so are the next two */
	int root_fd;
	int lock_fd;             /* holds the pool lock, shared */
	bool read_only;          /* for this caller */
	bool read_only_fs;       /* the filesystem is read-only */
	bool has_stopped_before; /* an attempt to open it failed because its image shut down */
	uint64_t lock_wait_ms;
	struct marker marker;
	char *marker_fault; /* opened for a check: what is wrong with the file */
	struct catalogue *cat;
	struct store *store;
	struct blobs *sets; /* change sets */
	struct locks *locks;
	struct attacher *attacher;
};

/* The lock file may be removed with the pool while this waits for it, so the
 * function checks that the locked file is still the one under that name and
 * otherwise locks again.
 *
 * CAIRN_NOT_FOUND  the directory itself was removed
 */
int pool_impl_lock_pool(int dir_fd, bool exclusive, uint64_t wait_ms, int *ret_fd,
			struct cairn_err *err);
int pool_impl_lock_volume(struct pool *pool, uint64_t volume, uint64_t wait_ms, int *ret_fd,
			  struct cairn_err *err);
int pool_impl_lock_set(struct pool *pool, uint64_t number, uint64_t wait_ms, int *ret_fd,
		       struct cairn_err *err);

/* Does not wait. */
int pool_impl_lock_merge(struct pool *pool, uint64_t number, int *ret_fd, struct cairn_err *err);

/* The lock of a process that has temporary snapshots (temporary.h). Does not wait. */
#define HANDLE_TEMPORARY_MASK ((1ULL << 60) - 1)
int pool_impl_lock_temporary(struct pool *pool, uint64_t number, int *ret_fd,
			     struct cairn_err *err);

/* Sets CAIRN_UNAVAILABLE: the image's filesystem has shut down and is in use. */
int pool_impl_has_shut_down(const struct pool *pool, struct cairn_err *err);

/* CAIRN_PRECONDITION on a read-only pool, CAIRN_UNAVAILABLE where its image has shut down. */
int pool_impl_check_writable(struct pool *pool, struct cairn_err *err);

/* A volume's size: above 0, a multiple of a sector, at most the maximum. */
int pool_impl_check_size(uint64_t size, struct cairn_err *err);
int pool_impl_check_granularity(uint32_t granularity, struct cairn_err *err);

/* The size of an object's data, which may be more than its record says after a
 * failed expansion, or if the file was grown by hand. Bytes past the recorded
 * size do not belong to the object. CAIRN_DATA_LOSS when it is less. */
int pool_impl_data_size(struct pool *pool, struct store_ref ref, uint64_t recorded, uint64_t *ret,
			struct cairn_err *err);

/* Finds a volume by id or by name; a deleted one only by id.
 *
 * CAIRN_NOT_FOUND  never existed, or was deleted
 * CAIRN_DATA_LOSS  its record cannot be read, or is missing although it has data
 */
int pool_impl_find_volume(struct pool *pool, const char *text, struct record_volume *ret,
			  struct cairn_err *err);

/* The same, but CAIRN_NOT_FOUND for a deleted volume, also by id. */
int pool_impl_find_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			       char id[POOL_ID_MAX + 1], struct cairn_err *err);

/* CAIRN_INVALID unless the text may name a restore: see
 * pool_volume_set_restoring(). */
int pool_impl_check_restoring(const char *backup, struct cairn_err *err);

/* CAIRN_PRECONDITION when a restore to the volume is not finished. */
int pool_impl_check_whole(const struct record_volume *volume, struct cairn_err *err);

/* Locks a volume that is not deleted and returns its record as read under the
 * lock. Its name may since have been given to another volume, so use only the id
 * from here on.
 *
 * CAIRN_ABORTED  another holder kept it for longer than `lock_wait_ms`
 */
int pool_impl_lock_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			       char id[POOL_ID_MAX + 1], int *ret_fd, struct cairn_err *err);

/* The same for a snapshot that is not deleted: the lock is its volume's. */
int pool_impl_lock_live_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
				 int *ret_fd, struct cairn_err *err);

/* Commits the changed record of a volume, durably.
 *
 * CAIRN_ABORTED  the record is no longer `old`
 */
int pool_impl_commit_volume(struct pool *pool, const struct record_volume *old,
			    const struct record_volume *now, struct cairn_err *err);

/* A volume's own settings, or the pool's. */
uint64_t pool_impl_retention_ms(const struct pool *pool, const struct record_volume *volume);
uint32_t pool_impl_granularity(const struct pool *pool, const struct record_volume *volume);
/* When a snapshot of the volume expires if it is deleted now. */
uint64_t pool_impl_expiry_ns(const struct pool *pool, const struct record_volume *volume);

/* As pool_snapshot_get() describes. */
int pool_impl_find_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
			    struct cairn_err *err);
/* The same, but CAIRN_NOT_FOUND for a snapshot that has expired. */
int pool_impl_find_recorded_snapshot(struct pool *pool, const char *text,
				     struct record_snapshot *ret, struct cairn_err *err);
/* The same, but CAIRN_NOT_FOUND for a tombstone. */
int pool_impl_find_live_snapshot(struct pool *pool, const char *text, struct record_snapshot *ret,
				 struct cairn_err *err);

void pool_impl_fill_volume(const struct pool *pool, const struct record_volume *record,
			   struct pool_volume *ret);
/* Cannot fail, so it can be used after a commit. */
void pool_impl_fill_snapshot_of(const struct record_volume *volume,
				const struct record_snapshot *record, struct pool_snapshot *ret);
/* The record of a snapshot's volume. CAIRN_NOT_FOUND only where the snapshot is gone too. */
int pool_impl_volume_of_snapshot(struct pool *pool, const struct record_snapshot *record,
				 struct record_volume *ret, struct cairn_err *err);
int pool_impl_fill_snapshot(struct pool *pool, const struct record_snapshot *record,
			    struct pool_snapshot *ret, struct cairn_err *err);

#endif
