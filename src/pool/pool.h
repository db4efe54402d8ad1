/* SPDX-License-Identifier: Apache-2.0 */

/* A pool: volumes, their snapshots, and what changed between any two of them.
 *
 * This is the interface for the command line, the CSI services and the backup
 * tool: the pool itself below, and a header for each kind of object, which this
 * one includes. Behind it, store.h holds the bytes, catalogue.h the records, and
 * files in sets/ the change sets, one per snapshot against its predecessor.
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
#include "pool/pool_delta.h"
#include "pool/pool_names.h"
#include "pool/pool_snapshots.h"
#include "pool/pool_upkeep.h"
#include "pool/pool_volumes.h"

struct cairn_err;
struct pool;
struct store_progress;

enum pool_backend {
	POOL_BACKEND_AUTO,
	POOL_BACKEND_BTRFS,
	POOL_BACKEND_REFLINK,
	POOL_BACKEND_COPY,
};

struct pool_create_spec {
	const char *dir; /* or "rbd:POOL[/NAMESPACE][:id=USER][:conf=FILE]…": on Ceph */
	enum pool_backend backend;
	uint64_t image_size;   /* of the loop-mounted image, if one is created; 0: automatic */
	bool thin;             /* the image may be larger than the space that is free */
	uint64_t retention_ms; /* 0: the default */
	uint32_t granularity;  /* 0: the default, 4096 */
	const char *ceph_conf; /* of a pool on Ceph; NULL: as the address says */
	const char *ceph_user;
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

/* The pool's address as it has to be given from another working directory; `ret` has room
 * for `n` bytes. */
int pool_address_absolute(const char *dir, char *ret, size_t n, struct cairn_err *err);

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

/* How often to try an operation for pool_has_stopped(). */
#define POOL_STOP_TRIES 4U

/* After an operation failed: true if the filesystem of the pool's image has shut down, so that the
 * operation may succeed after the pool was closed and opened, which mounts the image again if
 * no other process uses it. */
bool pool_has_stopped(struct pool *pool, const struct cairn_err *err);

/* True if the pool's storage has stopped and works again after the pool was closed and
 * opened: the filesystem of its image has shut down, no volume or snapshot is attached,
 * and the image's host has space. For processes that keep a pool open; costs three
 * system calls while all is well. */
bool pool_wants_reopening(struct pool *pool);

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

/* Its directory, an absolute path without links, or "rbd:POOL[/NAMESPACE]"; belongs to the
 * pool. */
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

#endif
