/* SPDX-License-Identifier: Apache-2.0 */

/* Commits. Batches that arrive while a commit is in progress wait in a queue,
 * and the first of them then commits for all in one transaction with one sync.
 * So with many writers each waits for at most two syncs, and batches are
 * committed in the order of arrival. Each batch has its own result: one whose
 * expectations do not hold is left out; when anything else fails, every batch is
 * retried alone. */

#include "pool/catalogue/catalogue.h"

#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_log.h"
#include "pool/catalogue/catalogue_mark.h"
#include "pool/catalogue/catalogue_room.h"
#include "pool/catalogue/catalogue_vfs.h"

/* A short log keeps opening the catalogue fast, because the first process that
 * opens it reads all of it; copying it into the main file costs two syncs. */
#define CHECKPOINT_PAGES 128

/* When readers have kept the log from being reset up to this size, wait for
 * them. */
#define CHECKPOINT_WAIT_PAGES 8192
#define CHECKPOINT_WAIT_MS    500

#define SUPERSEDE_TRIES 3U

/* Batches that share a sync; bounds how long the first of them waits. */
#define GROUP_MAX 64U

/* A batch that waits, on its caller's stack. */
struct catalogue_waiting {
	struct catalogue_waiting *next;
	struct catalogue_batch *batch;
	enum catalogue_sync sync;
	int rc;
	struct cairn_err err;
	bool done;
	bool leads; /* commits for those behind it */
	pthread_cond_t changed;
};

static int catalogue_commit_expect(struct conn *conn, sqlite3_stmt *stmt, const struct batch_op *op,
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
	} else if (op->kind != BATCH_PUT && op->kind != BATCH_DELETE) {
		rc = catalogue_commit_expect(conn, stmt, op, key, value, err);
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
		if (expectations == (op.kind != BATCH_PUT && op.kind != BATCH_DELETE)) {
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
static bool catalogue_commit_supersede(struct conn *conn)
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

static int catalogue_commit_run_late(struct conn *conn, struct catalogue_batch *batch,
				     struct cairn_err *err)
{
	int rc;

	batch->conn = conn;
	rc = batch->late(batch->late_arg, batch, err);
	batch->conn = NULL;
	if (rc == 0 && batch->failed.code != 0) {
		*err = batch->failed;
		rc = err->code;
	}
	return rc;
}

/* *ret_touched: it may have changed something before it failed. Operations that
 * the batch added inside the transaction are dropped afterwards, because a retry
 * adds them again. */
static int catalogue_commit_run_batch(struct conn *conn, struct catalogue_batch *batch,
				      bool *ret_touched, struct cairn_err *err)
{
	size_t len = batch->ops.len;
	int rc = batch->late ? catalogue_commit_run_late(conn, batch, err) : 0;

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

		w->rc = catalogue_commit_run_batch(conn, w->batch, &touched, &w->err);
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
static int catalogue_commit_begin(struct conn *conn, struct cairn_err *err)
{
	int rc = pool_conn_run(conn, CONN_BEGIN, err);

	if (rc != CAIRN_ABORTED)
		return rc;
	return cairn_err_set(err, CAIRN_UNAVAILABLE,
			     "catalogue '%s' has been locked by another process for %d s; see "
			     "whether one that uses the pool is stopped",
			     conn->path, CATALOGUE_BUSY_MS / 1000);
}

/* One transaction for the whole group; an unmet expectation of a single batch
 * is the failure of that batch only. */
static int run_transaction(struct conn *conn, struct catalogue_waiting *group, bool *ret_uncertain,
			   struct cairn_err *err)
{
	bool committing = false;
	int before = sqlite3_total_changes(conn->db);
	int rc = catalogue_commit_begin(conn, err);

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
		*ret_uncertain = !catalogue_commit_supersede(conn) && is_in_log(conn);
	return rc;
}

/* With a write-ahead log a commit appends frames to one file. "Normal" does not
 * sync it (except once when the log restarts from its beginning); the frames
 * are in the page cache, so a killed process loses nothing. "Full" ends with an
 * fsync of the log, which includes all frames that earlier commits, also of
 * other processes, wrote to it; frames that had left the log before were synced
 * in both files by the checkpoint that moved them. The checksums of the frames
 * form a chain, so after a power cut a prefix of the commits is recovered,
 * never a commit without its predecessors. */
static int set_sync(struct conn *conn, bool full, struct cairn_err *err)
{
	int rc;

	if (conn->full_sync == full)
		return 0;
	rc = pool_conn_exec(conn, full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL",
			    err);
	if (rc == 0)
		conn->full_sync = full;
	return rc;
}

static int note_log_pages(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct conn *conn = arg;

	(void)db;
	(void)name;
	conn->log_pages = pages;
	conn->log_is_copied = false;
	return SQLITE_OK;
}

static int expect_wal(void *arg, int n, char **values, char **names)
{
	(void)names;
	*(bool *)arg = n == 1 && values[0] && strcmp(values[0], "wal") == 0;
	return 0;
}

/* Two damaged bytes of the header would make SQLite use a rollback journal,
 * with which readers and the writer block each other. */
static int check_journal_mode(struct conn *conn, struct cairn_err *err)
{
	bool wal = false;
	int rc = sqlite3_exec(conn->db, "PRAGMA journal_mode", expect_wal, &wal, NULL);

	if (rc != SQLITE_OK)
		return pool_conn_err(conn, rc, err);
	if (!wal)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "catalogue '%s' has lost its write-ahead log mode",
				     conn->path);
	return 0;
}

static int writer_open(struct catalogue *cat, struct cairn_err *err)
{
	cairn_cleanup(pool_conn_closep) struct conn *conn = NULL;
	int rc = pool_conn_open(cat->path, true, &conn, err);

	if (rc == 0)
		rc = check_journal_mode(conn, err);
	if (rc == 0)
		rc = pool_conn_exec(conn, "PRAGMA synchronous=FULL", err);
	if (rc != 0)
		return rc;
	conn->full_sync = true;
	sqlite3_wal_hook(conn->db, note_log_pages, conn);
	cat->writer = cairn_take(conn);
	return 0;
}

/* The main file of a catalogue from an older version is not yet marked as having a log.
 * Only a checkpoint copies the mark there, so setting it before the first checkpoint is
 * early enough. */
static void say_log(struct conn *conn)
{
	if (!conn->says_log && pool_conn_has_had_log(conn, NULL) == 0)
		(void)pool_conn_exec(conn, CATALOGUE_LOG_SQL ";" CATALOGUE_CACHE_SQL, NULL);
	conn->says_log = true;
}

/* A failure here is not a failure of the commit: the next one retries. The log is not
 * truncated to 0, because that could not be distinguished from a lost one. */
static void keep_log_short(struct conn *conn)
{
	int mode = SQLITE_CHECKPOINT_PASSIVE, pages = 0, copied = 0, rc;

	/* With a removed index, others may have copied newer pages already. */
	if (conn->log_pages < CHECKPOINT_PAGES || !pool_catalogue_disk_vfs_is_current(conn->db))
		return;
	if (conn->log_pages >= CHECKPOINT_WAIT_PAGES) {
		mode = SQLITE_CHECKPOINT_RESTART;
		sqlite3_busy_timeout(conn->db, CHECKPOINT_WAIT_MS);
	}
	say_log(conn);
	pool_catalogue_vfs_checkpoint(true);
	rc = sqlite3_wal_checkpoint_v2(conn->db, "main", mode, &pages, &copied);
	pool_catalogue_vfs_checkpoint(false);
	sqlite3_busy_timeout(conn->db, CATALOGUE_BUSY_MS);
	conn->log_pages = 0;
	conn->log_is_copied = rc == SQLITE_OK && pages == copied;
}

void pool_catalogue_begin_log_anew(struct conn *conn)
{
	/* With a removed index it is unknown what others have committed since. */
	if (!conn || !conn->log_is_copied || !pool_catalogue_disk_vfs_is_current(conn->db))
		return;
	sqlite3_busy_timeout(conn->db, 0);
	if (set_sync(conn, false, NULL) == 0)
		(void)pool_conn_exec(conn, CATALOGUE_TOUCH_SQL, NULL);
}

/* The index was removed while this process was running: other processes create a new
 * one, and commit without seeing this connection's locks. It is then unknown whether a
 * commit in between was overwritten. */
static void leave_removed_index(struct catalogue *cat)
{
	if (cat->writer && !pool_catalogue_disk_vfs_is_current(cat->writer->db)) {
		pool_conn_close(cat->writer);
		cat->writer = NULL;
	}
}

static int check_index(struct catalogue *cat, struct cairn_err *err)
{
	if (pool_catalogue_disk_vfs_is_current(cat->writer->db))
		return 0;
	cat->uncertain = true;
	return cairn_err_set(err, CAIRN_UNAVAILABLE,
			     "'%s-shm' was removed during a commit, which may be lost", cat->path);
}

/* At 0 bytes free without a reserve: pool/catalogue/catalogue_room.h. */
static int commit_in_room(struct catalogue *cat, struct catalogue_waiting *group,
			  struct cairn_err *err)
{
	struct catalogue_room room = {.index_fd = -1};
	int rc = pool_catalogue_room_enter(cat, &room, err);

	/* Callers retry CAIRN_ABORTED. */
	if (rc == CAIRN_ABORTED)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "catalogue '%s': no space, and another process has it open; "
				     "stop that process, or free some space",
				     cat->path);
	if (rc)
		return rc;
	rc = run_transaction(room.conn, group, &cat->uncertain, err);
	if (rc == CAIRN_NO_SPACE && pool_catalogue_room_shorten(&room))
		rc = run_transaction(room.conn, group, &cat->uncertain, err);
	pool_catalogue_room_leave(&room);
	return rc;
}

/* Commits the whole group or nothing. Call with the writer's lock held. */
static int commit_group(struct catalogue *cat, struct catalogue_waiting *group,
			struct cairn_err *err)
{
	bool durable = false;
	int rc = 0;

	for (struct catalogue_waiting *w = group; w; w = w->next)
		durable = durable || w->sync == CATALOGUE_DURABLE;
	leave_removed_index(cat);
	if (cat->room_tries > 0) {
		rc = commit_in_room(cat, group, err);
		if (rc == 0)
			cat->room_tries = 0;
		return rc;
	}
	if (!cat->writer)
		rc = writer_open(cat, err);
	if (rc == 0)
		rc = set_sync(cat->writer, durable, err);
	if (rc == 0)
		rc = run_transaction(cat->writer, group, &cat->uncertain, err);
	if (rc == 0)
		rc = check_index(cat, err);
	if (rc != 0 && rc != CAIRN_ABORTED) {
		/* Close the connection, because its state after an error is
		 * unknown. */
		pool_conn_close(cat->writer);
		cat->writer = NULL;
	}
	return rc;
}

static void commit_alone(struct catalogue *cat, struct catalogue_waiting *w)
{
	struct catalogue_waiting *next = w->next;

	w->next = NULL;
	w->rc = commit_group(cat, w, &w->err);
	w->next = next;
}

static void commit_all(struct catalogue *cat, struct catalogue_waiting *group)
{
	struct cairn_err err = {0};
	int rc;

	if (!group->next) {
		commit_alone(cat, group);
		return;
	}
	rc = commit_group(cat, group, &err);
	for (struct catalogue_waiting *w = group; w && rc != 0; w = w->next) {
		/* A commit that may yet turn out to be committed must not be
		 * repeated; and if the catalogue is locked, one wait is enough
		 * for all. */
		if (cat->uncertain || rc == CAIRN_UNAVAILABLE) {
			w->rc = rc;
			w->err = err;
		} else {
			commit_alone(cat, w);
		}
	}
}

/* Waits until this batch was committed, or it is its turn to commit. */
static void catalogue_commit_wait_turn(struct catalogue *cat, struct catalogue_waiting *self)
{
	cairn_scoped_lock(&cat->group_lock);
	*cat->group_tail = self;
	cat->group_tail = &self->next;
	if (!cat->group_led)
		cat->group_led = self->leads = true;
	while (!self->done && !self->leads)
		pthread_cond_wait(&self->changed, &cat->group_lock);
}

/* Takes the first ones off the queue; the caller leads and is the very first. */
static struct catalogue_waiting *take_group(struct catalogue *cat)
{
	struct catalogue_waiting *first, *last;

	cairn_scoped_lock(&cat->group_lock);
	first = last = cat->group;
	for (unsigned n = 1; n < GROUP_MAX && last->next; n++)
		last = last->next;
	cat->group = last->next;
	if (!cat->group)
		cat->group_tail = &cat->group;
	last->next = NULL;
	return first;
}

/* Wakes the owners. They may return at once, which frees their entries. */
static void release_group(struct catalogue *cat, struct catalogue_waiting *group,
			  const struct catalogue_waiting *self)
{
	cairn_scoped_lock(&cat->group_lock);
	while (group) {
		struct catalogue_waiting *next = group->next;

		group->done = true;
		if (group != self)
			pthread_cond_signal(&group->changed);
		group = next;
	}
}

static void pass_lead(struct catalogue *cat)
{
	cairn_scoped_lock(&cat->group_lock);
	cat->group_led = cat->group != NULL;
	if (cat->group) {
		cat->group->leads = true;
		pthread_cond_signal(&cat->group->changed);
	}
}

static void catalogue_commit_lead(struct catalogue *cat, const struct catalogue_waiting *self)
{
	struct catalogue_waiting *group = take_group(cat);

	pthread_mutex_lock(&cat->writer_lock);
	commit_all(cat, group);
	release_group(cat, group, self);
	if (cat->writer)
		keep_log_short(cat->writer);
	pthread_mutex_unlock(&cat->writer_lock);
	pass_lead(cat);
}

int pool_catalogue_commit(struct catalogue_batch *batch, enum catalogue_sync sync,
			  struct cairn_err *err)
{
	struct catalogue *cat = batch->cat;
	struct catalogue_waiting self = {.batch = batch, .sync = sync};

	if (batch->failed.code != 0) {
		if (err)
			*err = batch->failed;
		return batch->failed.code;
	}
	if (!cat->writable)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the catalogue is open for reading only");
	pthread_cond_init(&self.changed, NULL);
	catalogue_commit_wait_turn(cat, &self);
	if (self.leads)
		catalogue_commit_lead(cat, &self);
	pthread_cond_destroy(&self.changed);
	if (self.rc != 0 && err)
		*err = self.err;
	return self.rc;
}

bool pool_catalogue_is_certain(struct catalogue *cat)
{
	cairn_scoped_lock(&cat->writer_lock);
	return !cat->uncertain;
}
