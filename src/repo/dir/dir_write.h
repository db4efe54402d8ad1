/* SPDX-License-Identifier: Apache-2.0 */

/* Writing one file of a repository in a directory. */
#ifndef CAIRN_REPO_DIR_DIR_WRITE_H
#define CAIRN_REPO_DIR_DIR_WRITE_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct repo_limiter;

struct dir_write {
	const void *data;
	size_t n;
	bool durable;
	struct repo_limiter *limiter; /* or NULL */
	bool (*cancelled)(void);      /* or NULL */
};

/* Creates and writes the file, which must not exist. Large files bypass the page cache on
 * filesystems that are known to do this well: packs are not read again soon, and copying
 * them into the cache costs as much as hashing them. */
int dir_write_file(int dir_fd, const char *name, const struct dir_write *write,
		   struct cairn_err *err);

#endif
