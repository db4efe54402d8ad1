/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_room.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_shm.h"
#include "pool/catalogue/catalogue_vfs.h"

/* One region of the index, which every process needs. */
#define INDEX_SIZE (32U << 10)

/* Since the last commit that succeeded. */
#define ROOM_TRIES 2U

bool pool_catalogue_make_room(struct catalogue *cat)
{
	cairn_scoped_lock(&cat->writer_lock);
	/* Opening the log anew would take a commit that failed for a valid one. */
	if (!cat->writable || cat->uncertain || cat->room_tries >= ROOM_TRIES)
		return false;
	cat->room_tries++;
	return true;
}

static void close_all(struct catalogue *cat)
{
	struct conn *idle;

	pthread_mutex_lock(&cat->readers_lock);
	idle = cat->idle;
	cat->idle = NULL;
	cat->n_idle = 0;
	pthread_mutex_unlock(&cat->readers_lock);
	while (idle) {
		struct conn *next = idle->next;

		pool_conn_close(idle);
		idle = next;
	}
	pool_conn_close(cat->writer);
	cat->writer = NULL;
}

/* A process maps the index only while it has a lock on the main file, which the
 * connection excludes. Blocks are free only after the filesystem's commit. */
static int release_index(const struct catalogue *cat, int *ret_fd, struct cairn_err *err)
{
	cairn_auto_free char *name = cairn_printf("%s-shm", cat->path);
	cairn_auto_fd int fd = -1;

	if (!name)
		return cairn_err_nomem(err, "catalogue");
	if (pool_shm_open_beside(name, strlen(cat->path), &fd) < 0 || ftruncate(fd, 0) < 0 ||
	    syncfs(fd) < 0)
		return cairn_err_sys(err, errno, "'%s'", name);
	pool_shm_write_in_place(fd); /* an older version did not */
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

int pool_catalogue_room_enter(struct catalogue *cat, struct catalogue_room *ret,
			      struct cairn_err *err)
{
	cairn_cleanup(pool_conn_closep) struct conn *conn = NULL;
	int rc;

	close_all(cat);
	rc = pool_conn_open_alone(cat->path, &conn, err);
	if (rc == 0)
		rc = pool_conn_exec(conn, "PRAGMA synchronous=FULL", err);
	if (rc == 0)
		rc = release_index(cat, &ret->index_fd, err);
	if (rc == 0) {
		conn->full_sync = true;
		ret->conn = cairn_take(conn);
	}
	return rc;
}

/* XFS cannot make the file at 0 bytes free. */
static bool has_trust_file(const struct conn *conn)
{
	cairn_auto_free char *name = cairn_printf("%s-trust", conn->path);

	return name && access(name, F_OK) == 0;
}

/* The first commit rewrites a log that is not trusted, without which there is no
 * checkpoint; the second one restarts the log, and SQLite then cuts it to the limit.
 * Without a trust file, a restart that is killed looks like a lost log, so the main file
 * must not say that it has one; the next checkpoint with a trust file adds that again. */
bool pool_catalogue_room_shorten(const struct catalogue_room *room)
{
	struct conn *conn = room->conn;
	int pages = 0, copied = -1, rc;

	if (pool_conn_exec(conn, has_trust_file(conn) ? CATALOGUE_TOUCH_SQL : CATALOGUE_NO_LOG_SQL,
			   NULL) != 0)
		return false;
	pool_catalogue_vfs_checkpoint_alone();
	rc = sqlite3_wal_checkpoint_v2(conn->db, "main", SQLITE_CHECKPOINT_FULL, &pages, &copied);
	pool_catalogue_vfs_checkpoint(false);
	if (rc != SQLITE_OK || pages != copied)
		return false;
	return pool_conn_exec(conn, "PRAGMA journal_size_limit=0;" CATALOGUE_TOUCH_SQL, NULL) == 0;
}

/* Zeros are an index that is not initialised. If they cannot be written, the next
 * process that needs the index retries. */
void pool_catalogue_room_leave(struct catalogue_room *room)
{
	static const char zeros[INDEX_SIZE];

	(void)pool_catalogue_room_shorten(room);
	(void)syncfs(room->index_fd);
	if (cairn_pwrite_full(room->index_fd, zeros, sizeof(zeros), 0) == 0)
		(void)fdatasync(room->index_fd); /* allocates the blocks */
	pool_conn_close(cairn_take(room->conn));
	cairn_closep(&room->index_fd);
}
