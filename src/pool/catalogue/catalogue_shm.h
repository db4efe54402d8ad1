/* SPDX-License-Identifier: Apache-2.0 */

/* The shared index of a write-ahead log, mapped by one SQLite connection; see
 * catalogue_disk_vfs.h. Return values are result codes of SQLite:
 *
 * SQLITE_FULL      a block could not be allocated
 * SQLITE_BUSY      another connection holds the lock
 * SQLITE_READONLY  mapped, but for reading only
 * SQLITE_READONLY_CANTINIT  for reading only, and no process has made the index
 *
 * A shm belongs to one thread at a time.
 */
#ifndef CAIRN_POOL_CATALOGUE_SHM_H
#define CAIRN_POOL_CATALOGUE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shm;

/* Opens the index of the database at `path`, and creates it if it is missing. A connection that
 * is not `writable` may also use one that it can only read. */
int pool_shm_open_for(const char *path, bool writable, struct shm **ret);
/* Drops every lock. Accepts NULL. */
void pool_shm_close(struct shm *shm);

/* The memory of one region of `size` bytes, valid until pool_shm_close(); NULL when the
 * file does not reach that far and `extend` is false. */
int pool_shm_map(struct shm *shm, size_t region, size_t size, bool extend, void volatile **ret);

/* How many bytes of the log the index holds, and the log's salt; false when the
 * index is not initialised. */
bool pool_shm_log_end(const struct shm *shm, uint8_t *ret_salt, uint64_t *ret_end);

/* False when the file was removed: the next process to open the database creates
 * another index and does not see the locks of this one. */
bool pool_shm_is_linked(const struct shm *shm);
/* False also when another file has taken the name. */
bool pool_shm_is_current(const struct shm *shm);

/* Like xShmLock of sqlite3_io_methods. */
int pool_shm_lock(struct shm *shm, unsigned slot, unsigned n, int flags);

/* A descriptor that keeps the index marked as in use, also after pool_shm_close(), so
 * that the next process need not rebuild it. -1 when this connection does not use
 * the index. */
int pool_shm_hold(const struct shm *shm);

/* Opens a file next to a database for reading and writing. `path` names the file;
 * its first `db_len` bytes are the path of the database, whose owner and mode a
 * new file gets. On btrfs a new file is not copy-on-write, so rewriting it takes
 * no space. 0, or -1 with errno set. */
int pool_shm_open_beside(const char *path, size_t db_len, int *ret_fd);

/* Disables copy-on-write for an empty file. Failures are ignored. */
void pool_shm_write_in_place(int fd);

#endif
