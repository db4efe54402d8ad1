/* SPDX-License-Identifier: Apache-2.0 */

/* Taking a pool apart: just what its marker says was made. */
#ifndef CAIRN_POOL_REMOVE_H
#define CAIRN_POOL_REMOVE_H

#include <stdbool.h>

struct cairn_err;
struct marker;

/* Detaches, unmounts and removes the contents, then the marker; the caller
 * holds the pool's lock. Can be repeated after an interruption.
 *
 * CAIRN_PRECONDITION  something is in use; nothing was removed
 */
int remove_pool_contents(const char *dir, int dir_fd, const struct marker *marker,
			 struct cairn_err *err);

/* Removes the lock file and, where the pool made it, the directory if it is
 * empty. Does nothing while there is a marker. The caller holds the pool's lock
 * exclusively: anybody else would remove the lock of a pool that is being made. */
void remove_pool_shell(const char *dir, int dir_fd, bool made_dir);

/* Takes the lock and does the same; for a process that opened a lock file and
 * then found no pool beside it. */
void remove_abandoned_shell(const char *dir, int dir_fd, bool made_dir);

#endif
