/* SPDX-License-Identifier: Apache-2.0 */

/* A backup repository in restic's format, version 2.
 *
 * Backups are kept in a format that restic reads and writes too, so that users
 * are not locked in. This is the entry point: a repository is created or opened
 * here, and then used through blob.h (data in and out), tree.h (files and
 * directories), snapshot.h (what can be restored), prune.h and check.h.
 *
 * Order of writing, each durable before the next: packs, index, snapshot. A
 * process may die at any point: data of a saved snapshot is complete; packs
 * without a snapshot are found again by repo_adopt_packs() or deleted by a
 * prune.
 *
 * A repository has one lock, taken on open: writers share it, operations that
 * delete hold it exclusively. A thread renews it while the repository is open.
 * A process that holds one must ignore or handle SIGHUP, because `restic
 * unlock` sends it to the process that a lock names.
 *
 * All functions may be called from any number of threads unless they say
 * otherwise. A failed write is sticky: all later writes fail with the same
 * error, so that no snapshot refers to data that is not stored.
 */
#ifndef CAIRN_REPO_REPO_H
#define CAIRN_REPO_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"
#include "repo/repo_store.h"

struct cairn_err;
struct repo;

enum repo_lock_kind {
	REPO_LOCK_NONE,      /* for reading, if no lock can be taken or none is wanted */
	REPO_LOCK_SHARED,    /* read, and add */
	REPO_LOCK_EXCLUSIVE, /* delete: forget, prune, check */
};

/* Compression of new blobs, as a zstd level; 0 is the default below. */
#define REPO_LEVEL_DEFAULT 3
#define REPO_LEVEL_OFF     (-1)

struct repo_options {
	struct repo_store_options store;
	const void *password; /* any bytes; copies are kept no longer than needed */
	size_t password_len;
	enum repo_lock_kind lock;
	uint64_t lock_wait_ms;  /* how long to wait for conflicting locks; 0: do not wait */
	uint64_t lock_pause_ms; /* between writing a lock and the second check; 0: 200 */
	uint64_t lock_renew_ms; /* how often it is renewed; 0: five minutes, as restic does */
	bool lock_early; /* a shared lock: do not wait for the second check; see repo_settle() */
	/* A reader can do without a shared lock if it cannot be written: on a
	 * read-only or full filesystem, or without permission to write.
	 * repo_unlocked() reports it. */
	bool lock_optional;
	const char *hostname; /* in new snapshots; NULL: this machine's name */
	uint64_t pack_size;   /* target; 0: 16 MiB; 4 to 128 MiB are sensible */
	int level;            /* see above */
	/* A local directory for the cache that makes increments cheap (cache.h); NULL: none. */
	const char *cache_dir;
	uint32_t cache_min; /* minimum number of blobs to use it; 0: REPO_CACHE_BLOBS_MIN */
	uint64_t load_part; /* bytes of index files that are loaded at a time; 0: REPO_LOAD_PART */
	uint64_t kdf_n;     /* scrypt's N of a new key; 0: 32768; a power of two */
};

/* Creates an empty repository and opens it.
 *
 * CAIRN_EXISTS   there is already one
 * CAIRN_INVALID  no password
 */
int repo_init(const struct repo_options *options, struct repo **ret, struct cairn_err *err);

/* Finds the key, reads the config and takes the lock. The index is not loaded.
 *
 * CAIRN_NOT_FOUND        no repository there
 * CAIRN_UNAUTHENTICATED  no key opens with this password
 * CAIRN_UNIMPLEMENTED    the repository's version is not 2
 * CAIRN_ABORTED          another process holds a lock that excludes ours
 * CAIRN_DATA_LOSS        config or key are damaged
 */
int repo_open(const struct repo_options *options, struct repo **ret, struct cairn_err *err);

/* Stops threads and removes the lock. Blobs that were put and not flushed are
 * dropped. No other call may be in progress. Accepts NULL. */
void repo_close(struct repo *repo);
CAIRN_DEFINE_CLEANUP(struct repo, repo_close);

/* The same, and reports whether an operation under the exclusive lock has used the store's reserve,
 * which the next prune on a full disk needs. The repository is closed in any case.
 *
 * CAIRN_NO_SPACE  there is no reserve now, or a smaller one
 */
int repo_end(struct repo *repo, struct cairn_err *err);

/* 64 hex digits that name the repository, wherever it is moved. */
const char *repo_config_id(const struct repo *repo);

struct repo_store *repo_get_store(struct repo *repo);

/* Loads every index file, with several requests at a time. Later calls do
 * nothing. blob.h and tree.h need it, listing snapshots does not.
 *
 * CAIRN_DATA_LOSS  an index file is damaged; the text says which
 */
int repo_load_index(struct repo *repo, struct cairn_err *err);

/* The same, but index files that are still listed and in the local cache are not read from
 * the repository; the cache is searched in place. For callers that look up and add blobs;
 * code that walks over all blobs must call repo_load_index(), which may also be done
 * afterwards. */
int repo_load_index_cached(struct repo *repo, struct cairn_err *err);

/* Looks for packs that no index names, left by a writer that died, and adopts
 * their blobs, which need not be sent again. The next flush writes them into an
 * index. Damaged ones are left alone. Needs a lock. `ret_packs` and `ret_blobs`
 * may be NULL. */
int repo_adopt_packs(struct repo *repo, uint64_t *ret_packs, uint64_t *ret_blobs,
		     struct cairn_err *err);

/* What a repair of the index did. */
struct repo_repair_stats {
	uint64_t files;         /* damaged index files that were removed */
	uint64_t packs;         /* indexed again as a whole */
	uint64_t packs_damaged; /* removed, after their readable blobs were stored again */
	uint64_t blobs_saved, blobs_lost; /* of these */
	uint64_t packs_unreadable;        /* their headers are damaged: they stay as they are */
};

/* Restores the index after index files were damaged or lost: their contents are
 * read from the headers of the packs. Of a damaged pack that no index file names, each
 * blob whose own hash is right is stored again, and the others are recorded as lost.
 * Damaged files are removed once their replacements are stored. Needs the exclusive lock; the
 * index is loaded afterwards. `ret` may be NULL, and is also set on failure. */
int repo_repair_index(struct repo *repo, struct repo_repair_stats *ret, struct cairn_err *err);

/* Fails when the lock was lost: removed by another process, or not renewed in
 * time. Saving a snapshot and deleting check this themselves.
 *
 * CAIRN_ABORTED  it was lost
 */
int repo_check_lock(struct repo *repo, struct cairn_err *err);

/* With lock_early the repository is open as soon as its lock is written; the second
 * check for other locks, a moment later, runs in the background. Reading may begin
 * meanwhile. Operations that cannot be undone call this function themselves first:
 * sending a pack, adopting one, writing an index or a snapshot. It also verifies that
 * every index file that was loaded still exists: a process that held the exclusive
 * lock in between may have deleted the packs that it named.
 *
 * CAIRN_ABORTED  another process locked or changed the repository: close it, and open
 *                it again without lock_early
 */
int repo_settle(struct repo *repo, struct cairn_err *err);

/* True when repo_settle() or repo_check_lock() found the repository locked or pruned by another
 * process: open it again without lock_early. */
bool repo_collided(const struct repo *repo);

/* True when a requested lock could not be written and was omitted (lock_optional).
 * Other processes may then delete data that is being read, which results in an
 * error and never in wrong data. */
bool repo_unlocked(const struct repo *repo);

/* Removes stale locks: not renewed for 30 minutes, or of a dead process of this host
 * (lock.h); with `all`, every one. Taking a lock removes stale ones itself. Needs no
 * lock. */
int repo_unlock(struct repo *repo, bool all, uint64_t *ret_removed, struct cairn_err *err);

/* Announces how many bytes are about to be put: packs become larger, up to 128 MiB, so that
 * listing them takes few requests. No effect if repo_options.pack_size is set. Call it before
 * the first blob is put. */
void repo_expect(struct repo *repo, uint64_t bytes);
uint64_t repo_pack_size_for(uint64_t bytes);

struct repo_stats {
	uint64_t blobs_new;      /* stored by this process */
	uint64_t bytes_new;      /* plain */
	uint64_t bytes_stored;   /* written to the store: packs, index, trees, snapshots */
	uint64_t blobs_known;    /* put, but already stored */
	uint64_t packs_stored;   /* so far */
	uint64_t packs_total;    /* in the index */
	uint64_t blobs_total;    /* in the index */
	uint64_t bytes_received; /* read from the store */
	uint64_t requests;       /* to the store: repo_store.requests */
};

void repo_get_stats(struct repo *repo, struct repo_stats *ret);

#endif
