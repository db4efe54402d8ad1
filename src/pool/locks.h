/* SPDX-License-Identifier: Apache-2.0 */

/* The pool's locks between processes, and between nodes where the pool is on a network.
 *
 * A lock is one of 2^63 numbered slots. It is held by an open descriptor and released by
 * closing it; a process that dies releases all of its locks. One `const struct lock_ops`
 * for each kind: bytes of a file in the pool's directory, entries in RADOS (pool/rbd).
 * Which slot stands for what: pool_impl.h.
 *
 * Thread-safe; two threads of a process exclude each other too.
 */
#ifndef CAIRN_POOL_LOCKS_H
#define CAIRN_POOL_LOCKS_H

#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct locks;

struct lock_ops {
	const char *name;

	void (*close)(struct locks *locks);
	int (*take)(struct locks *locks, uint64_t slot, uint64_t wait_ms, int *ret_fd,
		    struct cairn_err *err);
};

struct locks {
	const struct lock_ops *ops;
};

/* Locks in the file `name` of a directory; both are borrowed. */
int pool_locks_open_file(int dir_fd, const char *name, struct locks **ret, struct cairn_err *err);
void pool_locks_close(struct locks *locks);
CAIRN_DEFINE_CLEANUP(struct locks, pool_locks_close);

/* Waits up to `wait_ms` (0: not at all).
 *
 * CAIRN_ABORTED  another holder still has it after that time
 */
int pool_locks_take(struct locks *locks, uint64_t slot, uint64_t wait_ms, int *ret_fd,
		    struct cairn_err *err);

#endif
