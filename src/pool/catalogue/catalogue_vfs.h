/* SPDX-License-Identifier: Apache-2.0 */

/* The SQLite VFS of connections that write: catalogue_disk_vfs.h,
 * wrapped so that a failed sync of the write-ahead log is recorded for all processes.
 *
 * After a failed fsync() Linux marks the dirty pages clean. The next fsync()
 * succeeds although the data is not on disk: later commits would follow a hole in
 * the log and be lost with it at a power cut. So two bytes in the file
 * "<catalogue>-trust" record whether the log can be trusted, one for commits and
 * one for checkpoints. Each is cleared before a sync and set again after it has
 * succeeded, so it stays cleared when the sync fails or the process is killed
 * during it. They need not be durable. If the file is missing, the log is not
 * trusted.
 *
 * A commit that finds the log not trusted rewrites all of it, syncs it and reads
 * it back before it succeeds. Checkpoints do not run while the log is not trusted:
 * they would mix pages of two states in the main file. See docs/decisions/002.
 */
#ifndef CAIRN_POOL_CATALOGUE_VFS_H
#define CAIRN_POOL_CATALOGUE_VFS_H

#include <stdbool.h>

/* Name of the VFS to open writing connections with; NULL when out of memory. */
const char *pool_catalogue_vfs_name(void);

/* Declares that the calling thread's syncs of a log belong to a checkpoint. */
void pool_catalogue_vfs_checkpoint(bool running);

/* The same for the checkpoint of a connection that excludes all others and has just
 * committed: it needs no trust file. */
void pool_catalogue_vfs_checkpoint_alone(void);

#endif
