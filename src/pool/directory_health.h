/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the filesystem of a pool in a directory still works; for its table in site.h. */
#ifndef CAIRN_POOL_DIRECTORY_HEALTH_H
#define CAIRN_POOL_DIRECTORY_HEALTH_H

#include <stdbool.h>

struct cairn_err;
struct pool;
struct pool_condition;

void pool_directory_look(struct pool *pool, struct pool_condition *ret);
bool pool_directory_has_stopped(struct pool *pool, const struct cairn_err *err);
bool pool_directory_wants_reopening(struct pool *pool);

#endif
