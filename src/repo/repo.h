/* SPDX-License-Identifier: Apache-2.0 */

/* A backup repository in restic's format, version 2.
 *
 * Backups are kept in a format that others read and write too, so that nobody's
 * data is locked in. This is the door: a repository is made or opened here, and
 * then used through blob.h (data in and out), tree.h (files and directories),
 * snapshot.h (what can be restored), prune.h and check.h.
 *
 * Order of writing, each durable before the next: packs, index, snapshot. A
 * process may die at any point: what has a snapshot is whole, what has none is
 * found again by repo_adopt_packs() or deleted by a prune.
 *
 * A repository has one lock, taken at opening: writers share it, what deletes
 * holds it alone. It is renewed by a thread of its own while the repository is
 * open. Whoever holds one must ignore or handle SIGHUP: `restic unlock` sends
 * it to the process a lock names.
 *
 * All functions may be called from any number of threads unless they say
 * otherwise. A failed write sticks: everything written later fails with the
 * same error, so that no snapshot is made of what is not stored.
 */
#ifndef CAIRN_REPO_REPO_H
#define CAIRN_REPO_REPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"
#include "repo/store.h"

struct cairn_err;
struct repo;

enum repo_lock_kind {
	REPO_LOCK_NONE,      /* read at one's own risk, or from a place that takes no lock */
	REPO_LOCK_SHARED,    /* read, and add */
	REPO_LOCK_EXCLUSIVE, /* delete: forget, prune, check */
};

/* Compression of new blobs, as a zstd level; 0 is the default below. */
#define REPO_LEVEL_DEFAULT 3
#define REPO_LEVEL_OFF     (-1)

struct repo_options {
	struct repo_store_options store;
	const void *password; /* bytes as they are; copied nowhere longer than needed */
	size_t password_len;
	enum repo_lock_kind lock;
	uint64_t lock_wait_ms;  /* how long to wait for somebody else's lock; 0: do not */
	uint64_t lock_pause_ms; /* after writing a lock, before looking again; 0: 200 */
	uint64_t lock_renew_ms; /* how often it is renewed; 0: five minutes, as restic does */
	bool lock_early; /* a shared lock: do not wait for the second look; see repo_settle() */
	/* Who only reads can do without a shared lock where none can be written: on a
	 * read-only filesystem, a full one, or without the right to write.
	 * repo_unlocked() tells. */
	bool lock_optional;
	const char *hostname; /* in new snapshots; NULL: this machine's name */
	uint64_t pack_size;   /* target; 0: 16 MiB; 4 to 128 MiB are sensible */
	int level;            /* see above */
	/* A directory of this machine for what makes increments cheap (cache.h); NULL: none. */
	const char *cache_dir;
	uint32_t cache_min; /* blobs from which on it is used; 0: REPO_CACHE_BLOBS_MIN */
	uint64_t kdf_n;     /* scrypt's N of a new key; 0: 32768; a power of two */
};

/* Makes an empty repository and opens it.
 *
 * CAIRN_EXISTS   there is one already
 * CAIRN_INVALID  no password
 */
int repo_init(const struct repo_options *options, struct repo **ret, struct cairn_err *err);

/* Finds the key, reads the config and takes the lock. The index is not loaded.
 *
 * CAIRN_NOT_FOUND        there is no repository
 * CAIRN_UNAUTHENTICATED  no key opens with this password
 * CAIRN_UNIMPLEMENTED    the repository's version is not 2
 * CAIRN_ABORTED          somebody holds a lock that excludes ours
 * CAIRN_DATA_LOSS        config or key are damaged
 */
int repo_open(const struct repo_options *options, struct repo **ret, struct cairn_err *err);

/* Stops threads and removes the lock. What was put and not flushed is dropped.
 * No other call may be under way. Accepts NULL. */
void repo_close(struct repo *repo);
CAIRN_DEFINE_CLEANUP(struct repo, repo_close);

/* 64 hex digits that name the repository, wherever it is moved. */
const char *repo_config_id(const struct repo *repo);

struct repo_store *repo_get_store(struct repo *repo);

/* Loads every index file, with several requests at a time; once: later calls do
 * nothing. blob.h and tree.h need it, listing snapshots does not.
 *
 * CAIRN_DATA_LOSS  an index file is damaged; the text says which
 */
int repo_load_index(struct repo *repo, struct cairn_err *err);

/* The same, but what a cache of this machine says of index files that are still listed is
 * not read from the repository, and is searched in place. For those that find blobs and add
 * some; whoever walks over all blobs calls repo_load_index(), also afterwards. */
int repo_load_index_cached(struct repo *repo, struct cairn_err *err);

/* Looks for packs that no index names, left by a writer that died, and takes
 * over what they hold: blobs in them need not be sent again. The next flush
 * writes them into an index. Damaged ones are left alone. Needs a lock.
 * `ret_packs` and `ret_blobs` may be NULL. */
int repo_adopt_packs(struct repo *repo, uint64_t *ret_packs, uint64_t *ret_blobs,
		     struct cairn_err *err);

/* Makes the index whole again after index files were damaged or lost: what they
 * named is read from the headers of the packs. Damaged files are removed when
 * what replaces them is stored. Needs the exclusive lock; the index is loaded
 * afterwards. `ret_files` and `ret_packs` (may be NULL): how many were removed
 * and taken over. */
int repo_repair_index(struct repo *repo, uint64_t *ret_files, uint64_t *ret_packs,
		      struct cairn_err *err);

/* Fails when the lock was lost: removed by somebody, or not renewed in time.
 * Saving a snapshot and deleting ask this themselves.
 *
 * CAIRN_ABORTED  it was lost
 */
int repo_check_lock(struct repo *repo, struct cairn_err *err);

/* With lock_early the repository is open as soon as its lock is written; the second
 * look for others, a moment later, is taken behind it. Reading may begin meanwhile.
 * Whatever must not be taken back or lost waits here first, and does so by itself:
 * sending a pack, adopting one, writing an index or a snapshot. It is then also
 * made sure that every index file that was loaded is still there: somebody who
 * held the repository alone and let it go in between may have deleted what it named.
 *
 * CAIRN_ABORTED  somebody else took the repository, or changed it: close it, and open
 *                it again without lock_early
 */
int repo_settle(struct repo *repo, struct cairn_err *err);

/* True when that was so. */
bool repo_collided(const struct repo *repo);

/* True when a lock was asked for and done without (lock_optional). Others may then
 * delete what is being read, which is an error and never wrong data. */
bool repo_unlocked(const struct repo *repo);

/* Removes locks nobody can hold any more: not renewed for 30 minutes, or of a
 * process of this host that is gone (lock.h); with `all`, every one. Taking a lock does
 * the former by itself. Needs no lock. */
int repo_unlock(struct repo *repo, bool all, uint64_t *ret_removed, struct cairn_err *err);

/* So many bytes are about to be put: packs become larger, up to 128 MiB, so that listing them
 * takes few requests. Without effect where repo_options.pack_size says how large they are.
 * Before the first blob is put. */
void repo_expect(struct repo *repo, uint64_t bytes);
uint64_t repo_pack_size_for(uint64_t bytes);

struct repo_stats {
	uint64_t blobs_new;      /* stored by this process, and how large they were plain */
	uint64_t bytes_new;      /* plain */
	uint64_t bytes_stored;   /* written to the store: packs, index, trees, snapshots */
	uint64_t blobs_known;    /* put, and there already */
	uint64_t packs_stored;   /* so far */
	uint64_t packs_total;    /* in the index */
	uint64_t blobs_total;    /* in the index */
	uint64_t bytes_received; /* read from the store */
	uint64_t requests;       /* to the store: repo_store.requests */
};

void repo_get_stats(struct repo *repo, struct repo_stats *ret);

#endif
