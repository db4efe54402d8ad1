/* SPDX-License-Identifier: Apache-2.0 */

/* Scoped mutexes, and locks between processes.
 *
 * A file lock is one byte of a lock file (an open-file-description lock): the kernel
 * releases it when its holder closes the descriptor or dies, so there are no stale locks,
 * and a million objects need one file. Each open descriptor has its own locks, so two
 * threads with a descriptor each also exclude each other.
 */
#ifndef CAIRN_BASE_LOCK_H
#define CAIRN_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;

static inline pthread_mutex_t *cairn_mutex_enter(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

static inline void cairn_mutex_leavep(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

#define CAIRN_LOCK_NAME2_(line) cairn_scoped_lock_##line
#define CAIRN_LOCK_NAME_(line)  CAIRN_LOCK_NAME2_(line)

/* Holds the mutex until the end of the enclosing scope. */
#define cairn_scoped_lock(mutex)                                                      \
	pthread_mutex_t *CAIRN_LOCK_NAME_(__LINE__) cairn_cleanup(cairn_mutex_leavep) \
		__attribute__((unused)) = cairn_mutex_enter(mutex)

/* Opens `name` (created if missing) for locking and locks byte `slot`. Waits up to
 * `wait_ms` (0 does not wait, UINT64_MAX has no limit). The lock is held until the
 * returned descriptor is closed.
 *
 * CAIRN_ABORTED  another holder still has it after that time
 */
int cairn_file_lock(int dir_fd, const char *name, uint64_t slot, bool exclusive, uint64_t wait_ms,
		    int *ret_fd, struct cairn_err *err);

#endif
