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

/* Between the removal of the lock file and that of the directory nobody may make a lock
 * file: the directory would stay, and the pool made in it would not know that the directory
 * goes with it. Whoever does either holds this lock, on the directory itself, until the
 * descriptor is closed or remove_unlock_shell(). A lock that a stranger holds is not
 * waited for. */
void remove_lock_shell(int dir_fd);
void remove_unlock_shell(int dir_fd);

/* Removes the lock file and, where the pool made it, the directory if it is
 * empty. Does nothing while there is a marker. The caller holds the pool's lock
 * exclusively: anybody else would remove the lock of a pool that is being made. */
void remove_pool_shell(const char *dir, int dir_fd, bool made_dir);

/* Takes the lock and does the same; for a process that opened a lock file and
 * then found no pool beside it. */
void remove_abandoned_shell(const char *dir, int dir_fd, bool made_dir);

#endif
