/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_transaction.h"

#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_log.h"
#include "pool/catalogue/catalogue_mark.h"

#define SUPERSEDE_TRIES 3U

static int transaction_expect(struct conn *conn, sqlite3_stmt *stmt, const struct batch_op *op,
			      struct catalogue_bytes key, struct catalogue_bytes want,
			      struct cairn_err *err)
{
	struct catalogue_bytes have;
	int rc = sqlite3_step(stmt);

	if (rc == SQLITE_DONE && op->kind == BATCH_EXPECT_ABSENT)
		return 0;
	if (rc != SQLITE_ROW && rc != SQLITE_DONE)
		return pool_conn_err(conn, rc, err);
	if (rc == SQLITE_ROW && op->kind == BATCH_EXPECT_STORED) {
		have = pool_conn_column(stmt, 0);
		if (have.len == want.len &&
		    (want.len == 0 || memcmp(have.data, want.data, want.len) == 0))
			return 0;
	}
	if (rc == SQLITE_ROW && op->kind == BATCH_EXPECT) {
		if (!pool_catalogue_unwrap(key, pool_conn_column(stmt, 0), &have))
			return cairn_err_set(err, CAIRN_DATA_LOSS,
					     "catalogue '%s': a record does not fit its checksum",
					     conn->path);
		if (have.len == want.len &&
		    (want.len == 0 || memcmp(have.data, want.data, want.len) == 0))
			return 0;
	}
	return cairn_err_set(err, CAIRN_ABORTED, "another process changed the same record");
}

static int run_op(struct conn *conn, const struct batch_op *op, const uint8_t *bytes,
		  struct cairn_err *err)
{
	static const enum pool_conn_stmt stmt_of[] = {
		[BATCH_PUT] = CONN_PUT,           [BATCH_DELETE] = CONN_DELETE,
		[BATCH_EXPECT] = CONN_GET,        [BATCH_EXPECT_ABSENT] = CONN_GET,
		[BATCH_EXPECT_STORED] = CONN_GET,
	};
	struct catalogue_bytes key = {bytes, op->key_len};
	struct catalogue_bytes value = {bytes + op->key_len, op->value_len};
	sqlite3_stmt *stmt = NULL;
	int rc = pool_conn_stmt(conn, stmt_of[op->kind], &stmt, err);

	if (rc != 0)
		return rc;
	rc = sqlite3_bind_blob(stmt, 1, key.data, (int)key.len, SQLITE_STATIC);
	if (rc == SQLITE_OK && op->kind == BATCH_PUT)
		rc = sqlite3_bind_blob(stmt, 2, value.data, (int)value.len, SQLITE_STATIC);
	if (rc != SQLITE_OK) {
		rc = pool_conn_err(conn, rc, err);
	} else if (!pool_catalogue_op_changes(op->kind)) {
		rc = transaction_expect(conn, stmt, op, key, value, err);
	} else {
		rc = sqlite3_step(stmt);
		rc = rc == SQLITE_DONE ? 0 : pool_conn_err(conn, rc, err);
	}
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return rc;
}

/* One pass over the operations: the expectations, or the changes. */
static int run_ops(struct conn *conn, const struct cairn_buf *ops, bool expectations,
		   struct cairn_err *err)
{
	const uint8_t *p = ops->data;
	const uint8_t *end = p ? p + ops->len : p;
	struct batch_op op;

	while (p < end) {
		memcpy(&op, p, sizeof(op));
		p += sizeof(op);
		if (expectations == (!pool_catalogue_op_changes(op.kind))) {
			int rc = run_op(conn, &op, p, err);

			if (rc != 0)
				return rc;
		}
		p += op.key_len + op.value_len;
	}
	return 0;
}

/* A transaction without a change writes no frame and so syncs nothing, but a
 * durable commit must also make all earlier commits durable: touch page 1. */
static int touch_if_unchanged(struct conn *conn, int changes_before, struct cairn_err *err)
{
	_Static_assert(CATALOGUE_VERSION == 1, "the statement below");

	if (sqlite3_total_changes(conn->db) != changes_before)
		return 0;
	return pool_conn_exec(conn, "PRAGMA user_version=1", err);
}

/* A commit whose sync failed is undone in memory, but its complete frames are in
 * the log, and the next process to open it would take them for committed. A
 * transaction of one frame that overwrites the first of them breaks their
 * checksum chain. */
static bool transaction_supersede(struct conn *conn)
{
	for (unsigned i = 0; i < SUPERSEDE_TRIES; i++) {
		if (pool_conn_exec(conn, CATALOGUE_TOUCH_SQL, NULL) == 0)
			return true;
		if (!sqlite3_get_autocommit(conn->db))
			pool_conn_run(conn, CONN_ROLLBACK, NULL);
	}
	return false;
}

/* Whether the log holds complete frames of a commit that failed: false when it was the
 * disk that was full. The index has the end of the commits that succeeded. */
static bool is_in_log(const struct conn *conn)
{
	cairn_auto_free char *name = cairn_printf("%s-wal", conn->path);
	uint8_t salt[CATALOGUE_SALT_SIZE];
	cairn_auto_fd int fd = -1;
	uint64_t end;

	if (!name || !pool_catalogue_disk_vfs_log_end(conn->db, salt, &end))
		return true;
	fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || pool_catalogue_log_has_commit(fd, salt, end);
}

/* *ret_touched: it may have changed something before it failed. Operations that
 * the batch added inside the transaction are dropped afterwards, because a retry
 * adds them again. */
static int transaction_run_batch(struct conn *conn, struct catalogue_batch *batch,
				 bool *ret_touched, struct cairn_err *err)
{
	size_t len = batch->ops.len;
	int rc = pool_catalogue_batch_run_late(batch, conn, err);

	*ret_touched = false;
	if (rc == 0)
		rc = run_ops(conn, &batch->ops, true, err);
	if (rc == 0) {
		*ret_touched = true;
		rc = run_ops(conn, &batch->ops, false, err);
	}
	batch->ops.len = len;
	return rc;
}

/* Batches whose expectations do not hold have changed nothing, so the others
 * continue. */
static int run_batches(struct conn *conn, struct catalogue_waiting *group, struct cairn_err *err)
{
	int rc = 0;

	for (struct catalogue_waiting *w = group; w && rc == 0; w = w->next) {
		bool touched;

		w->rc = transaction_run_batch(conn, w->batch, &touched, &w->err);
		if (w->rc == CAIRN_ABORTED && !touched)
			continue;
		rc = w->rc;
		if (rc != 0)
			*err = w->err;
	}
	return rc;
}

/* A commit takes milliseconds, so a process that holds the write lock for the whole
 * timeout is stopped or hangs. The code is not CAIRN_ABORTED: callers retry that. */
static int transaction_begin(struct conn *conn, struct cairn_err *err)
{
	int rc = pool_conn_run(conn, CONN_BEGIN, err);

	if (rc != CAIRN_ABORTED)
		return rc;
	return cairn_err_set(err, CAIRN_UNAVAILABLE,
			     "catalogue '%s' has been locked by another process for %d s; see "
			     "whether one that uses the pool is stopped",
			     conn->path, CATALOGUE_BUSY_MS / 1000);
}

int pool_catalogue_transaction_run(struct conn *conn, struct catalogue_waiting *group,
				   bool *ret_uncertain, struct cairn_err *err)
{
	bool committing = false;
	int before = sqlite3_total_changes(conn->db);
	int rc = transaction_begin(conn, err);

	if (rc != 0)
		return rc;
	rc = run_batches(conn, group, err);
	if (rc == 0 && !group->next && group->rc != 0) {
		*err = group->err;
		rc = group->rc;
	}
	if (rc == 0 && conn->full_sync)
		rc = touch_if_unchanged(conn, before, err);
	if (rc == 0) {
		committing = true;
		rc = pool_conn_run(conn, CONN_COMMIT, err);
	}
	if (rc != 0 && !sqlite3_get_autocommit(conn->db))
		pool_conn_run(conn, CONN_ROLLBACK, NULL);
	if (rc == 0)
		*ret_uncertain = false;
	else if (committing)
		*ret_uncertain = !transaction_supersede(conn) && is_in_log(conn);
	return rc;
}
