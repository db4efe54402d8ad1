/* SPDX-License-Identifier: Apache-2.0 */

/* A store whose objects are files: the common part of the directory back ends.
 *
 * DIR/volumes/ID/disk and DIR/snapshots/ID/disk. An object is built under the
 * name ID.new and renamed into place when it is complete and on disk; it is
 * removed by renaming it to ID.del first. So ID is always a complete object,
 * and leftovers of a killed process are recognised by their suffix. An object
 * in quarantine is ID.aside, in the same directory, because btrfs cannot move a
 * read-only subvolume to another.
 */
#ifndef CAIRN_POOL_FILESET_H
#define CAIRN_POOL_FILESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/store/store.h"

struct cairn_err;

#define FILESET_DISK  "disk"
#define FILESET_ASIDE ".aside"

struct fileset {
	struct store store;
	char *dir;
	int kind_fd[2]; /* by enum store_kind */
};

/* "ID" and a suffix, in a buffer of its own. */
struct pool_fileset_name {
	char text[STORE_ID_MAX + 8];
};

struct pool_fileset_name pool_fileset_name(const char *id, const char *suffix);

/* The magic number of the filesystem that `dir` is on. */
int pool_fileset_magic(const char *dir, uint64_t *ret_magic, struct cairn_err *err);

/* Opens the directories; creates them if `writable`. */
int pool_fileset_new(const struct store_ops *ops, const char *dir, bool writable,
		     struct fileset **ret, struct cairn_err *err);
void pool_fileset_free(struct fileset *set);
CAIRN_DEFINE_CLEANUP(struct fileset, pool_fileset_free);

/* Opens an object's file; `flags` as for open(). */
int pool_fileset_open_disk(struct fileset *set, struct store_ref ref, int flags, int *ret_fd,
			   struct cairn_err *err);

/* The size of an open file. */
int pool_fileset_fd_size(int fd, uint64_t *ret_size, struct cairn_err *err);

/* Sets *ret_exists when a volume of exactly this size exists; CAIRN_EXISTS when
 * it has another size. The process that created it may have been killed before
 * it was durable, so the caller syncs it again. */
int pool_fileset_existing_volume(struct fileset *set, const char *id, uint64_t size,
				 bool *ret_exists, struct cairn_err *err);

/* CAIRN_EXISTS when a snapshot of this id exists. */
int pool_fileset_no_snapshot(struct fileset *set, const char *id, struct cairn_err *err);

/* Sets the size of an open volume file; CAIRN_RANGE when that would shrink it.
 * Not synced. */
int pool_fileset_grow(int fd, uint64_t size, struct cairn_err *err);

/* Truncates a copy that is being built to `size`; CAIRN_DATA_LOSS when it is
 * shorter. Not synced. */
int pool_fileset_trim(int fd, uint64_t size, struct cairn_err *err);

int pool_fileset_sync(int fd, struct cairn_err *err);

/* Makes the creation or removal of the object's name durable. */
int pool_fileset_settle(struct fileset *set, struct store_ref ref, struct cairn_err *err);

/* ---- objects that are directories (not btrfs) --------------------------- */

/* Makes ID.new with an empty file, replacing a leftover one. */
int pool_fileset_build(struct fileset *set, struct store_ref ref, int *ret_fd,
		       struct cairn_err *err);

/* Opens the object that pool_fileset_prepare() built, or else does what
 * pool_fileset_build() does. */
int pool_fileset_continue(struct fileset *set, struct store_ref ref, int *ret_fd,
			  struct cairn_err *err);

/* Syncs the object and renames it to its final name. */
int pool_fileset_finish(struct fileset *set, struct store_ref ref, int fd, struct cairn_err *err);

/* Removes ID.new; for error paths. */
void pool_fileset_abandon(struct fileset *set, struct store_ref ref);

/* Fills the file `to` with the contents of `from`. `to` is empty unless it was
 * prepared. */
typedef int (*fileset_copy)(int from, int to, struct cairn_err *err);

/* Builds an object that a later pool_fileset_cut() of the same id continues, so that `to` of
 * its `copy` is not empty. `copy` may leave it empty. */
int pool_fileset_prepare(struct fileset *set, const char *volume_id, const char *snapshot_id,
			 fileset_copy copy, struct cairn_err *err);

/* snapshot_cut and volume_clone of struct store_ops, for a given copy
 * function. */
int pool_fileset_cut(struct fileset *set, const char *volume_id, const char *snapshot_id,
		     uint64_t size, fileset_copy copy, struct cairn_err *err);
int pool_fileset_clone(struct fileset *set, const char *id, const char *snapshot_id,
		       uint64_t length, uint64_t size, fileset_copy copy, struct cairn_err *err);

/* volume_replace of struct store_ops: the file in ID is replaced by that in ID.new. */
int pool_fileset_replace(struct fileset *set, const struct store_replacement *spec,
			 fileset_copy copy, struct cairn_err *err);

/* Calls spec->ready before ID.new takes the place of ID. */
int pool_fileset_ready(struct fileset *set, const struct store_replacement *spec,
		       struct cairn_err *err);

/* Removes one directory of the given name with its file; a missing one is not
 * an error. */
int pool_fileset_remove_named(struct fileset *set, enum store_kind kind, const char *name,
			      struct cairn_err *err);

/* ---- slots of struct store_ops ------------------------------------------ */

void pool_fileset_store_close(struct store *store);
int pool_fileset_volume_create(struct store *store, const char *id, uint64_t size,
			       struct cairn_err *err);
int pool_fileset_volume_resize(struct store *store, const char *id, uint64_t size,
			       struct cairn_err *err);
int pool_fileset_volume_sweep(struct store *store, const char *id, struct cairn_err *err);
int pool_fileset_remove(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_fileset_size(struct store *store, struct store_ref ref, uint64_t *ret_size,
		      struct cairn_err *err);
int pool_fileset_usage(struct store *store, struct store_usage *ret, struct cairn_err *err);
int pool_fileset_list(struct store *store, enum store_kind kind,
		      int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		      struct cairn_err *err);
int pool_fileset_set_aside(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_fileset_bring_back(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_fileset_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err);
int pool_fileset_list_aside(struct store *store, enum store_kind kind,
			    int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			    struct cairn_err *err);
int pool_fileset_path(struct store *store, struct store_ref ref, char **ret_path,
		      struct cairn_err *err);
int pool_fileset_reader_open(struct store *store, struct store_ref ref, struct store_reader **ret,
			     struct cairn_err *err);

/* Allocated ranges by SEEK_DATA, which is correct on every filesystem. */
int pool_fileset_allocated_seek(struct store *store, struct store_ref ref, uint64_t start,
				struct block_extent *out, size_t max, size_t *ret_n,
				struct cairn_err *err);

#endif
