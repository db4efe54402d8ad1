/* SPDX-License-Identifier: Apache-2.0 */

/* What an open pool is made of, and its locks. For the files of this directory
 * that make up pool.h.
 *
 * Locks, all in the file `lock` and dropped by the kernel when their holder
 * dies. Order: the pool, then volumes (ascending), then a set.
 *   pool    shared by everyone who has it open; exclusive to create and destroy
 *   volume  whoever changes the volume, its snapshots or who depends on them
 *   set     whoever makes or rewrites a snapshot's change set
 * Records are protected by expectation (ledger.h), so a reader needs no lock.
 */
#ifndef CAIRN_POOL_HANDLE_H
#define CAIRN_POOL_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/marker.h"
#include "pool/pool.h"
#include "pool/record.h"

struct cairn_err;
struct catalogue;
struct catalogue_batch;
struct store;

#define POOL_LOCK_NAME  "lock"
#define POOL_IMAGE_NAME "pool.img"
#define POOL_MOUNT_NAME "data"
#define POOL_SETS_NAME  "sets"

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
	struct catalogue *cat;
	struct store *store;
};

int handle_lock_pool(int dir_fd, bool exclusive, uint64_t wait_ms, int *ret_fd,
		     struct cairn_err *err);
int handle_lock_volume(struct pool *pool, uint64_t volume, uint64_t wait_ms, int *ret_fd,
		       struct cairn_err *err);
int handle_lock_set(struct pool *pool, uint64_t number, uint64_t wait_ms, int *ret_fd,
		    struct cairn_err *err);

/* CAIRN_PRECONDITION on a read-only pool. */
int handle_check_writable(const struct pool *pool, struct cairn_err *err);

/* A volume's size: above 0, a multiple of a sector, at most the maximum. */
int handle_check_size(uint64_t size, struct cairn_err *err);
int handle_check_granularity(uint32_t granularity, struct cairn_err *err);

/* Finds by id or by name. Deleted volumes only by id. */
int handle_find_volume(struct pool *pool, const char *text, struct record_volume *ret,
		       struct cairn_err *err);

/* The same, but CAIRN_NOT_FOUND for a deleted one; its id too. */
int handle_find_live_volume(struct pool *pool, const char *text, struct record_volume *ret,
			    char id[POOL_ID_MAX + 1], struct cairn_err *err);

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
