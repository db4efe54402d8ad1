/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/locks.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"

struct file_locks {
	struct locks base;
	int dir_fd;
	const char *name;
};

static void file_locks_close(struct locks *locks)
{
	free(locks);
}

static int file_locks_take(struct locks *base, uint64_t slot, uint64_t wait_ms, int *ret_fd,
			   struct cairn_err *err)
{
	const struct file_locks *locks = (const struct file_locks *)base;

	return cairn_file_lock(locks->dir_fd, locks->name, slot, true, wait_ms, ret_fd, err);
}

static const struct lock_ops file_lock_ops = {
	.name = "file",
	.close = file_locks_close,
	.take = file_locks_take,
};

int pool_locks_open_file(int dir_fd, const char *name, struct locks **ret, struct cairn_err *err)
{
	struct file_locks *locks = cairn_calloc(1, sizeof(*locks));

	if (!locks)
		return cairn_err_nomem(err, "locks");
	*locks = (struct file_locks){.base.ops = &file_lock_ops, .dir_fd = dir_fd, .name = name};
	*ret = &locks->base;
	return 0;
}

void pool_locks_close(struct locks *locks)
{
	if (locks)
		locks->ops->close(locks);
}

int pool_locks_take(struct locks *locks, uint64_t slot, uint64_t wait_ms, int *ret_fd,
		    struct cairn_err *err)
{
	return locks->ops->take(locks, slot, wait_ms, ret_fd, err);
}
