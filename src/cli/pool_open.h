/* SPDX-License-Identifier: Apache-2.0 */

/* The pool that --pool names. Not in options.h: most roles have no pool, and their
 * programs are linked without it. */
#ifndef CAIRN_CLI_POOL_OPEN_H
#define CAIRN_CLI_POOL_OPEN_H

struct cairn_err;
struct pool;

enum cmd_access {
	CMD_READ,  /* listings: never writes */
	CMD_QUERY, /* may complete a pending change set where it has the right to */
	CMD_WRITE,
};

int cmd_pool_open(enum cmd_access access, struct pool **ret, struct cairn_err *err);

#endif
