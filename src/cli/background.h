/* SPDX-License-Identifier: Apache-2.0 */

/* Change sets of fresh snapshots, made by a process of their own.
 *
 * The cut is durable and acknowledged; comparing it with its predecessor may
 * take minutes on a volume of many extents. The child has a session of its own
 * and no terminal, so it outlives the command. If it is killed or fails the
 * sets stay pending, and the next query that needs one makes it.
 */
#ifndef CAIRN_CLI_BACKGROUND_H
#define CAIRN_CLI_BACKGROUND_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct pool_hold;
struct pool_snapshot;

enum cmd_sets {
	CMD_SETS_DONE,
	CMD_SETS_RUNNING, /* still at it after `wait_ms`, or the wait was interrupted */
	CMD_SETS_FAILED,  /* `err` says why */
};

/* The caller has closed the pool: an open one must not cross fork(). Releases
 * `hold`. */
enum cmd_sets cmd_sets_make(const struct pool_snapshot *snapshots, size_t n, uint64_t wait_ms,
			    struct pool_hold *hold, struct cairn_err *err);

#endif
