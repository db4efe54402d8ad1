/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the catalogue in an SQLite file.
 *
 * Readers and the writer have connections of their own: SQLite's write-ahead
 * log gives each reader the state of one moment while commits go on. A reader
 * takes an idle connection or opens one more, so threads read in parallel, and
 * the callback of a scan, which may read and commit, never waits for a lock
 * that its own scan holds.
 */
#ifndef CAIRN_POOL_CATALOGUE_IMPL_H
#define CAIRN_POOL_CATALOGUE_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "pool/catalogue/catalogue_ops.h"

struct catalogue_waiting;
struct conn;

struct catalogue_sqlite {
	struct catalogue base;
	char *path;
	const char *log_fault; /* what is wrong with the log, or NULL */

	/* Lock order: group_lock or readers_lock may be taken while writer_lock is held; no
	 * other locks nest. */
	pthread_mutex_t readers_lock; /* guards the three below; never held across I/O */
	struct conn *idle;
	unsigned n_idle;
	bool lets_go; /* pool_catalogue_let_go() */

	pthread_mutex_t group_lock; /* guards the three below; never held across I/O */
	struct catalogue_waiting *group, **group_tail;
	bool group_led; /* a thread is committing, or was woken to do so */

	pthread_mutex_t writer_lock; /* held through a commit; guards those below */
	struct conn *writer;         /* NULL before the first commit and after a failure */
	bool uncertain;              /* a commit failed, and may yet turn out to be committed */
	unsigned room_tries;         /* of pool_catalogue_make_room() since the last commit */
	bool prefers_room;           /* pool_catalogue_prefer_room() */
	void (*trim)(void *arg);     /* NULL: nothing to trim */
	void *trim_arg;
};

/* A connection for reading, returned with pool_catalogue_reader_release(); with
 * `reuse` false, after an error, that closes it. */
int pool_catalogue_reader_take(struct catalogue_sqlite *cat, struct conn **ret,
			       struct cairn_err *err);
void pool_catalogue_reader_release(struct catalogue_sqlite *cat, struct conn *conn, bool reuse);

/* Called before a connection that wrote is closed. How much of the log was checkpointed is
 * recorded only in its index, which the next process rebuilds. Unless the log is restarted
 * as well, commands that commit once each make it ever longer, and each of them copies all
 * of it. */
void pool_catalogue_begin_log_anew(struct conn *conn);

/* Slots of the table that have a file of their own. */
int pool_catalogue_sqlite_scan(struct catalogue *base, struct catalogue_bytes prefix,
			       struct catalogue_bytes after,
			       int (*fn)(void *arg, struct catalogue_bytes key,
					 struct catalogue_bytes value, bool damaged,
					 struct cairn_err *err),
			       void *arg, struct cairn_err *err);
int pool_catalogue_sqlite_commit(struct catalogue_batch *batch, enum catalogue_sync sync,
				 struct cairn_err *err);
bool pool_catalogue_sqlite_is_certain(struct catalogue *base);
bool pool_catalogue_sqlite_make_room(struct catalogue *base);
void pool_catalogue_sqlite_let_go(struct catalogue *base, bool let_go);
void pool_catalogue_sqlite_prefer_room(struct catalogue *base, void (*trim)(void *arg), void *arg);

#endif
