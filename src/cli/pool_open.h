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

/* Volumes or snapshots. */
struct cmd_deletable {
	/* Writes the id of what `name` names, POOL_ID_MAX bytes at most. */
	int (*find)(struct pool *pool, const char *name, char *ret_id);
	int (*remove)(struct pool *pool, const char *name, struct cairn_err *err);
};

/* If the filesystem of the pool's image shut down meanwhile, opens the pool again and repeats the
 * call: an image whose host is full can stop at any time, and opening it makes space for it.
 * *pool is NULL if it could not be opened. `err` must not be NULL. */
int cmd_pool_delete(struct pool **pool, const struct cmd_deletable *kind, const char *name,
		    struct cairn_err *err);

#endif
