/* SPDX-License-Identifier: Apache-2.0 */

/* Complete reads and writes, and atomic replacement of files. */
#ifndef CAIRN_BASE_IO_H
#define CAIRN_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cairn_err;

/* Reads `n` bytes or up to the end of the file; returns the number of bytes, or -1 with
 * errno set. Interruptions are retried. */
ssize_t cairn_pread_full(int fd, void *buf, size_t n, uint64_t offset);
ssize_t cairn_read_full(int fd, void *buf, size_t n);

/* Writes all `n` bytes; 0, or -1 with errno set. */
int cairn_pwrite_full(int fd, const void *buf, size_t n, uint64_t offset);
int cairn_write_full(int fd, const void *buf, size_t n);

/* Opens a file named by the user, for reading at any offset. A FIFO is rejected without
 * waiting for a writer.
 *
 * CAIRN_NOT_FOUND     there is no such file
 * CAIRN_PRECONDITION  it is a FIFO
 */
int cairn_open_readable(int dir_fd, const char *name, int *ret_fd, struct cairn_err *err);

/* Reads a whole file of at most `max` bytes, NUL-terminated beyond `*ret_len`. Opens it as
 * cairn_open_readable() does.
 *
 * CAIRN_NOT_FOUND     there is no such file
 * CAIRN_PRECONDITION  it is a FIFO
 * CAIRN_RANGE         it is larger than `max`
 */
int cairn_file_read(int dir_fd, const char *name, size_t max, char **ret_data, size_t *ret_len,
		    struct cairn_err *err);

/* Opens a regular file by a fixed name in a directory that another user may
 * write to: a symbolic link is not followed, and opening a FIFO does not wait.
 * `flags` and `mode` as for open().
 *
 * CAIRN_NOT_FOUND     there is no such file
 * CAIRN_PRECONDITION  it is not a regular file
 */
int cairn_open_regular(int dir_fd, const char *name, int flags, unsigned mode, int *ret_fd,
		       struct cairn_err *err);

/* Like cairn_file_read(), of a file that cairn_open_regular() opens. */
int cairn_file_read_regular(int dir_fd, const char *name, size_t max, char **ret_data,
			    size_t *ret_len, struct cairn_err *err);

/* Creates or replaces `name` with exactly these bytes, durably: a temporary file is
 * written and synced, renamed into place, and the directory synced. After a crash at any
 * point the file has the old contents or the new. The temporary name is `name` + ".tmp"; a
 * leftover one is removed and never written to, because it may be another user's link. */
int cairn_file_replace(int dir_fd, const char *name, const void *data, size_t n,
		       struct cairn_err *err);

/* fsync() of a directory by descriptor. */
int cairn_sync_dir(int dir_fd, const char *what, struct cairn_err *err);

/* Creates a directory and syncs its parent; an existing directory is not an error. */
int cairn_make_dir(int parent_fd, const char *name, unsigned mode, struct cairn_err *err);

#endif
