/* SPDX-License-Identifier: Apache-2.0 */

/* A file of a few MiB in the directory of a repository: on a full disk a prune removes it first, so
 * that there is room for the prune's own lock and index file. */
#ifndef CAIRN_REPO_DIR_RESERVE_H
#define CAIRN_REPO_DIR_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

int dir_space_at(const char *path, uint64_t *ret_free, struct cairn_err *err);

/* `root` is the open directory `path`. With `again`, for a reserve that this process has released, and
 * if there is an incomplete one, a disk with less space keeps a smaller one.
 *
 * CAIRN_NO_SPACE  there is none now, or a smaller one
 */
int dir_reserve_keep_at(int root, const char *path, bool again, struct cairn_err *err);

/* *ret_released is set if there was a reserve, and left alone otherwise. */
int dir_reserve_release_at(int root, bool *ret_released, struct cairn_err *err);

#endif
