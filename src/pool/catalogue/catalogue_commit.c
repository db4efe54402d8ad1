/* SPDX-License-Identifier: Apache-2.0 */

/* Commits. Batches that arrive while a commit is in progress wait in a queue,
 * and the first of them then commits for all in one transaction with one sync.
 * So with many writers each waits for at most two syncs, and batches are
 * committed in the order of arrival. Each batch has its own result: one whose
 * expectations do not hold is left out; when anything else fails, every batch is
 * retried alone. */

#include "pool/catalogue/catalogue.h"

#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_room.h"
#include "pool/catalogue/catalogue_transaction.h"
#include "pool/catalogue/catalogue_vfs.h"

/* A short log keeps opening the catalogue fast, because the first process that
 * opens it reads all of it; copying it into the main file costs two syncs. */
#define CHECKPOINT_PAGES 128

/* When readers have kept the log from being reset up to this size, wait for
 * them. */
#define CHECKPOINT_WAIT_PAGES 8192
#define CHECKPOINT_WAIT_MS    500

/* Batches that share a sync; bounds how long the first of them waits. */
#define GROUP_MAX 64U

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

static int writer_open(struct catalogue_sqlite *cat, struct cairn_err *err)
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
static void leave_removed_index(struct catalogue_sqlite *cat)
{
	if (cat->writer && !pool_catalogue_disk_vfs_is_current(cat->writer->db)) {
		pool_conn_close(cat->writer);
		cat->writer = NULL;
	}
}

static int check_index(struct catalogue_sqlite *cat, struct cairn_err *err)
{
	if (pool_catalogue_disk_vfs_is_current(cat->writer->db))
		return 0;
	cat->uncertain = true;
	return cairn_err_set(err, CAIRN_UNAVAILABLE,
			     "'%s-shm' was removed during a commit, which may be lost", cat->path);
}

static int run_in_room(struct catalogue_sqlite *cat, const struct catalogue_room *room,
		       struct catalogue_waiting *group, struct cairn_err *err)
{
	int rc = pool_catalogue_transaction_run(room->conn, group, &cat->uncertain, err);

	if (rc == CAIRN_NO_SPACE && pool_catalogue_room_shorten(room))
		rc = pool_catalogue_transaction_run(room->conn, group, &cat->uncertain, err);
	return rc;
}

/* At 0 bytes free without a reserve: pool/catalogue/catalogue_room.h. */
static int commit_in_room(struct catalogue_sqlite *cat, struct catalogue_waiting *group,
			  bool *ret_taken, struct cairn_err *err)
{
	struct catalogue_room room = {.index_fd = -1};
	int rc = pool_catalogue_room_enter(cat, &room, err);

	*ret_taken = rc == CAIRN_ABORTED;
	/* Callers retry CAIRN_ABORTED. */
	if (rc == CAIRN_ABORTED)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "catalogue '%s': no space, and another process has it open; "
				     "stop that process, or free some space",
				     cat->path);
	if (rc)
		return rc;
	rc = run_in_room(cat, &room, group, err);
	if (rc == CAIRN_NO_SPACE && pool_catalogue_room_release(cat, &room))
		rc = run_in_room(cat, &room, group, err);
	pool_catalogue_room_leave(cat, &room);
	return rc;
}

/* Commits the whole group or nothing. Call with the writer's lock held. */
static int commit_group(struct catalogue_sqlite *cat, struct catalogue_waiting *group,
			struct cairn_err *err)
{
	bool durable = false;
	int rc = 0;

	for (struct catalogue_waiting *w = group; w; w = w->next)
		durable = durable || w->sync == CATALOGUE_DURABLE;
	leave_removed_index(cat);
	if (cat->room_tries > 0 || cat->prefers_room) {
		bool taken;

		rc = commit_in_room(cat, group, &taken, err);
		if (rc == 0)
			cat->room_tries = 0;
		if (!taken || cat->room_tries > 0)
			return rc;
		cat->prefers_room = false;
		rc = 0;
	}
	if (!cat->writer)
		rc = writer_open(cat, err);
	if (rc == 0)
		rc = set_sync(cat->writer, durable, err);
	if (rc == 0)
		rc = pool_catalogue_transaction_run(cat->writer, group, &cat->uncertain, err);
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

static void commit_alone(struct catalogue_sqlite *cat, struct catalogue_waiting *w)
{
	struct catalogue_waiting *next = w->next;

	w->next = NULL;
	w->rc = commit_group(cat, w, &w->err);
	w->next = next;
}

static void commit_all(struct catalogue_sqlite *cat, struct catalogue_waiting *group)
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
static void catalogue_commit_wait_turn(struct catalogue_sqlite *cat, struct catalogue_waiting *self)
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
static struct catalogue_waiting *take_group(struct catalogue_sqlite *cat)
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
static void release_group(struct catalogue_sqlite *cat, struct catalogue_waiting *group,
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

static void pass_lead(struct catalogue_sqlite *cat)
{
	cairn_scoped_lock(&cat->group_lock);
	cat->group_led = cat->group != NULL;
	if (cat->group) {
		cat->group->leads = true;
		pthread_cond_signal(&cat->group->changed);
	}
}

static void catalogue_commit_lead(struct catalogue_sqlite *cat,
				  const struct catalogue_waiting *self)
{
	struct catalogue_waiting *group = take_group(cat);

	pthread_mutex_lock(&cat->writer_lock);
	commit_all(cat, group);
	release_group(cat, group, self);
	if (cat->writer)
		keep_log_short(cat->writer);
	pool_catalogue_close_if_let_go(cat);
	pthread_mutex_unlock(&cat->writer_lock);
	pass_lead(cat);
}

int pool_catalogue_sqlite_commit(struct catalogue_batch *batch, enum catalogue_sync sync,
				 struct cairn_err *err)
{
	struct catalogue_sqlite *cat = (struct catalogue_sqlite *)batch->cat;
	struct catalogue_waiting self = {.batch = batch, .sync = sync};

	pthread_cond_init(&self.changed, NULL);
	catalogue_commit_wait_turn(cat, &self);
	if (self.leads)
		catalogue_commit_lead(cat, &self);
	pthread_cond_destroy(&self.changed);
	if (self.rc != 0 && err)
		*err = self.err;
	return self.rc;
}

bool pool_catalogue_sqlite_is_certain(struct catalogue *base)
{
	struct catalogue_sqlite *cat = (struct catalogue_sqlite *)base;

	cairn_scoped_lock(&cat->writer_lock);
	return !cat->uncertain;
}
