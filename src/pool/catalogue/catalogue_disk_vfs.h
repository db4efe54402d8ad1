/* SPDX-License-Identifier: Apache-2.0 */

/* SQLite's "unix" VFS with two changes, so that a catalogue works on a full disk
 * (docs/decisions/003-a-reserve-for-freeing.md).
 *
 * The shared index of the write-ahead log (catalogue.db-shm) keeps its blocks:
 * the first process that opens it clears its header in place. SQLite itself
 * truncates the file to 0 and allocates it again, which fails at 0 bytes free. On
 * a copy-on-write filesystem, failure to allocate a page on write is returned as
 * an error instead of raising SIGBUS.
 *
 * The log (catalogue.db-wal) is allocated before it is written to, so that a
 * commit at 0 bytes free has room.
 *
 * File format and lock bytes are SQLite's, so processes with the plain VFS may
 * use the same catalogue at the same time. Locks are open-file-description locks
 * and belong to a connection, so two connections of one process exclude each
 * other without shared state.
 */
#ifndef CAIRN_POOL_CATALOGUE_DISK_VFS_H
#define CAIRN_POOL_CATALOGUE_DISK_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CATALOGUE_DISK_VFS "cairn-disk"

/* Size to which a log can grow at 0 bytes free: twice the size that starts a
 * checkpoint. */
#define CATALOGUE_LOG_RESERVE (1U << 20)

struct sqlite3;
struct sqlite3_file;

/* Registers the VFS with SQLite, once; returns an SQLite result code.
 * Thread-safe. */
int pool_catalogue_disk_vfs_register(void);

/* A descriptor that keeps the shared index of an idle connection in use after the
 * connection is closed; see pool_catalogue_hold(). -1 if the connection has no index
 * in use. */
int pool_catalogue_disk_vfs_hold(struct sqlite3 *db);

/* The salt and length of the log that a connection's index covers:
 * pool_shm_log_end(). */
bool pool_catalogue_disk_vfs_log_end(struct sqlite3 *db, uint8_t *ret_salt, uint64_t *ret_end);

/* pool_shm_is_linked() and pool_shm_is_current() of a connection's index; true without one. */
bool pool_catalogue_disk_vfs_is_linked(struct sqlite3 *db);
bool pool_catalogue_disk_vfs_is_current(struct sqlite3 *db);

/* Reads from the main file, bypassing the log. No other descriptor of that file may be
 * opened in this process: closing it would drop the locks of every connection. Returns 0,
 * with less than `n` bytes only at the end of the file, or -1 with errno set. */
int pool_catalogue_disk_vfs_read(struct sqlite3 *db, void *buf, size_t n, uint64_t offset,
				 size_t *ret_n);

/* The same for an open SQLite file. */
int pool_catalogue_file_read(struct sqlite3_file *file, void *buf, size_t n, uint64_t offset,
			     size_t *ret_n);

#endif
