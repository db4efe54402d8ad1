/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of the catalogue's files.
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

#include "base/buf.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"

struct catalogue_waiting;
struct conn;

enum batch_op_kind {
	BATCH_PUT,
	BATCH_DELETE,
	BATCH_EXPECT,
	BATCH_EXPECT_ABSENT,
	BATCH_EXPECT_STORED,
};

struct batch_op {
	enum batch_op_kind kind;
	size_t key_len, value_len;
};

struct catalogue_batch {
	struct catalogue *cat;
	struct cairn_buf ops; /* struct batch_op, key, value (of BATCH_PUT with its checksum) */
	struct cairn_err failed;
	catalogue_late_fn *late; /* adds further operations inside the transaction, or NULL */
	void *late_arg;
	struct conn *conn; /* of the transaction, while `late` runs */
};

struct catalogue {
	char *path;
	bool writable;
	const char *log_fault; /* what is wrong with the log, or NULL */

	/* Lock order: group_lock may be taken while writer_lock is held; no other
	 * locks nest. */
	pthread_mutex_t readers_lock; /* guards the two below; never held across I/O */
	struct conn *idle;
	unsigned n_idle;

	pthread_mutex_t group_lock; /* guards the three below; never held across I/O */
	struct catalogue_waiting *group, **group_tail;
	bool group_led; /* a thread is committing, or was woken to do so */

	pthread_mutex_t writer_lock; /* held through a commit; guards the three below */
	struct conn *writer;         /* NULL before the first commit and after a failure */
	bool uncertain;              /* a commit failed, and may yet turn out to be committed */
	unsigned room_tries;         /* of pool_catalogue_make_room() since the last commit */
};

/* A connection for reading, returned with pool_catalogue_reader_release(); with
 * `reuse` false, after an error, that closes it. */
int pool_catalogue_reader_take(struct catalogue *cat, struct conn **ret, struct cairn_err *err);
void pool_catalogue_reader_release(struct catalogue *cat, struct conn *conn, bool reuse);

/* Called before a connection that wrote is closed. How much of the log was checkpointed is
 * recorded only in its index, which the next process rebuilds. Unless the log is restarted
 * as well, commands that commit once each make it ever longer, and each of them copies all
 * of it. */
void pool_catalogue_begin_log_anew(struct conn *conn);

/* The value of `key` as the connection sees it; the codes of pool_catalogue_get(). */
int pool_catalogue_get_with(struct conn *conn, struct catalogue_bytes key, uint8_t **ret_data,
			    size_t *ret_len, struct cairn_err *err);

#endif
