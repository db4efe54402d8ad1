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

/* Opens the index of the database at `path`, and makes it where it is missing. */
int shm_open_for(const char *path, struct shm **ret);
/* Drops every lock. Accepts NULL. */
void shm_close(struct shm *shm);

/* The memory of one region of `size` bytes, valid until shm_close(); NULL when the
 * file does not reach that far and `extend` is false. */
int shm_map(struct shm *shm, size_t region, size_t size, bool extend, void volatile **ret);

/* How many bytes of the log the index holds, and the log's salt; false when the
 * index is not made. */
bool shm_log_end(const struct shm *shm, uint8_t *ret_salt, uint64_t *ret_end);

/* False when the file was removed: whoever opens the database next makes another index,
 * and takes no notice of this one's locks. */
bool shm_is_linked(const struct shm *shm);
/* The same also when another file has the name. */
bool shm_is_current(const struct shm *shm);

/* As xShmLock of sqlite3_io_methods. */
int shm_lock(struct shm *shm, unsigned slot, unsigned n, int flags);

/* A descriptor that holds what the connection holds, also after shm_close(): that
 * the index is in use, so that the next process need not make it anew. -1 when it
 * is not in use by this connection. */
int shm_hold(const struct shm *shm);

/* Opens a file beside a database for reading and writing. `path` is the file's,
 * and its first `db_len` bytes are the database's, whose owner and mode a new file
 * gets. On btrfs a new file is not copied on write: rewriting it takes no space.
 * 0, or -1 with errno set. */
int shm_open_beside(const char *path, size_t db_len, int *ret_fd);

#endif
