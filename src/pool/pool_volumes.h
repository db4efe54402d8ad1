/* SPDX-License-Identifier: Apache-2.0 */

/* The volumes of a pool: their records, devices, locks, health and space.
 *
 * See pool.h for names, ids and the thread rule.
 */
#ifndef CAIRN_POOL_POOL_VOLUMES_H
#define CAIRN_POOL_POOL_VOLUMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "pool/pool_names.h"

struct cairn_err;
struct pool;

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
/* A volume of the data that the pool's storage holds under a name of its own, which it loses.
 *
 * CAIRN_NOT_FOUND      no object has that name
 * CAIRN_PRECONDITION   it is in use, or has snapshots
 * CAIRN_UNIMPLEMENTED  the pool's storage holds nothing but the pool
 */
int pool_volume_adopt(struct pool *pool, const char *image, const char *name,
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
/* What such a device is: "loop"; on Ceph "krbd", "nbd" or "export". */
const char *pool_device_kind(struct pool *pool, const char *device);

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

/* A descriptor to write the volume's bytes with, as to a file, for a caller that holds
 * pool_volume_lock_file(). */
int pool_volume_open_data(struct pool *pool, const char *volume, int *ret_fd,
			  struct cairn_err *err);
/* CAIRN_ABORTED  the descriptor is not the volume's any more: it was rolled back */
int pool_volume_check_data(struct pool *pool, const char *volume, int fd, struct cairn_err *err);

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
	const char *device_kind;      /* pool_device_kind(), or NULL */
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

#endif
