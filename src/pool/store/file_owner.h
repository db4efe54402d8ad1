/* SPDX-License-Identifier: Apache-2.0 */

/* What root makes in a pool of another user belongs to the owner of the directory that
 * it is made in, so that the owner can go on using the pool. Nothing happens for
 * other users. A filesystem without owners is not an error.
 */
#ifndef CAIRN_POOL_OWNER_H
#define CAIRN_POOL_OWNER_H

#include <stddef.h>

struct cairn_err;

/* `fd` was just made in `dir_fd`, with O_EXCL: a file that was found may be a link that
 * the owner of the directory has put there. */
void pool_owner_adopt(int fd, int dir_fd);

/* openat() of a file to write to, which is made with mode 0600 when it is missing. The
 * flags are without O_CREAT; links are not followed. */
int pool_owner_open(int dir_fd, const char *name, int flags);

/* mkdirat() with mode 0700; the directory, open, or -1. What is made in it is made by this
 * descriptor: the owner of `dir_fd` may put a link in its place. */
int pool_owner_mkdir(int dir_fd, const char *name);

/* As cairn_file_replace(). */
int pool_owner_replace(int dir_fd, const char *name, const void *data, size_t n,
		       struct cairn_err *err);

#endif
