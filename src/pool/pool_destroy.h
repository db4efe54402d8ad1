/* SPDX-License-Identifier: Apache-2.0 */

/* Removes a pool: only the objects that its marker lists. */
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
int pool_destroy_contents(const char *dir, int dir_fd, const struct marker *marker,
			  struct cairn_err *err);

/* Between the removal of the lock file and that of the directory, no process may create a
 * lock file: the directory would stay, and a pool created in it would not know that the
 * directory is to be removed with it. Both operations hold this lock, on the directory
 * itself, until the descriptor is closed or pool_remove_unlock_shell() is called. If an
 * unrelated process holds the lock, this does not wait for it. */
void pool_remove_lock_shell(int dir_fd);
void pool_remove_unlock_shell(int dir_fd);

/* Removes the lock file and, if the pool created it, the directory if it is empty.
 * Does nothing while there is a marker. The caller must hold the pool's lock
 * exclusively, or it could remove the lock of a pool that is being created. */
void pool_destroy_shell(const char *dir, int dir_fd, bool made_dir);

/* Takes the lock and does the same; for a process that opened a lock file and
 * then found no pool in the directory. */
void pool_destroy_abandoned_shell(const char *dir, int dir_fd, bool made_dir);

#endif
