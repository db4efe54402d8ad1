/* SPDX-License-Identifier: Apache-2.0 */

/* The SQLite VFS of connections that write: the system's own, but a sync of the
 * write-ahead log that failed is remembered by everybody.
 *
 * After a failed fsync() Linux takes the dirty pages for clean. The next fsync()
 * succeeds, and nothing is on the disk: later commits would sit behind a hole in
 * the log and be lost with it at a power cut. So two bytes in the file
 * "<catalogue>-trust" say whether the log can be trusted, one for commits and one
 * for checkpoints. Each is taken back before a sync and given again after it has
 * succeeded: it stays taken back when the sync fails and when the process is
 * killed inside it. They need not be durable. Where the file is missing the log is
 * not trusted.
 *
 * A commit that finds the log not trusted writes all of it again, syncs it and
 * reads it back before it counts. A checkpoint does not run then: it would mix
 * pages of two states in the main file. See docs/decisions/002.
 */
#ifndef CAIRN_POOL_CATALOGUE_VFS_H
#define CAIRN_POOL_CATALOGUE_VFS_H

#include <stdbool.h>

/* The name to open writing connections with; NULL without memory. */
const char *catalogue_vfs_name(void);

/* Says that the calling thread's syncs of a log are a checkpoint's. */
void catalogue_vfs_checkpoint(bool running);

#endif
