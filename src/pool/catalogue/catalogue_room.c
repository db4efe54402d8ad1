/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_room.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <string.h>
#include <sys/vfs.h>
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

/* Enough of the log for seven pages; a deletion changes three or four. */
#define LOG_KEPT "32768"

/* Since the last commit that succeeded. */
#define ROOM_TRIES 2U

bool pool_catalogue_sqlite_make_room(struct catalogue *base)
{
	struct catalogue_sqlite *cat = (struct catalogue_sqlite *)base;

	cairn_scoped_lock(&cat->writer_lock);
	/* Opening the log anew would take a commit that failed for a valid one. */
	if (!cat->base.writable || cat->uncertain || cat->room_tries >= ROOM_TRIES)
		return false;
	cat->room_tries++;
	return true;
}

void pool_catalogue_sqlite_prefer_room(struct catalogue *base, void (*trim)(void *arg), void *arg)
{
	struct catalogue_sqlite *cat = (struct catalogue_sqlite *)base;

	cairn_scoped_lock(&cat->writer_lock);
	cat->trim = trim;
	cat->trim_arg = arg;
	cat->prefers_room = trim && cat->base.writable;
}

/* Call with the writer's lock held. */
static void close_all(struct catalogue_sqlite *cat)
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

void pool_catalogue_sqlite_let_go(struct catalogue *base, bool let_go)
{
	struct catalogue_sqlite *cat = (struct catalogue_sqlite *)base;

	cairn_scoped_lock(&cat->writer_lock);
	pthread_mutex_lock(&cat->readers_lock);
	cat->lets_go = let_go;
	pthread_mutex_unlock(&cat->readers_lock);
	if (let_go)
		close_all(cat);
}

void pool_catalogue_close_if_let_go(struct catalogue_sqlite *cat)
{
	bool lets_go;

	pthread_mutex_lock(&cat->readers_lock);
	lets_go = cat->lets_go;
	pthread_mutex_unlock(&cat->readers_lock);
	if (lets_go)
		close_all(cat);
}

/* Blocks are free only after the filesystem's commit, and those of an image only when
 * its host has them. If they are not, the commit fails. */
static void give_back(const struct catalogue_sqlite *cat, int fd)
{
	(void)syncfs(fd);
	if (cat->trim)
		cat->trim(cat->trim_arg);
}

/* A process maps the index only while it has a lock on the main file, which the
 * connection excludes. */
static int release_index(const struct catalogue_sqlite *cat, int *ret_fd, struct cairn_err *err)
{
	cairn_auto_free char *name = cairn_printf("%s-shm", cat->path);
	cairn_auto_fd int fd = -1;

	if (!name)
		return cairn_err_nomem(err, "catalogue");
	if (pool_shm_open_beside(name, strlen(cat->path), &fd) < 0 || ftruncate(fd, 0) < 0)
		return cairn_err_sys(err, errno, "'%s'", name);
	give_back(cat, fd);
	pool_shm_write_in_place(fd); /* an older version did not */
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

bool pool_catalogue_room_release(const struct catalogue_sqlite *cat, struct catalogue_room *room)
{
	return room->index_fd < 0 && release_index(cat, &room->index_fd, NULL) == 0;
}

/* Whether a block that is written again stays the same one. */
static bool writes_in_place(const struct catalogue_sqlite *cat)
{
	struct statfs fs;

	return !cat->trim && statfs(cat->path, &fs) == 0 && fs.f_type != BTRFS_SUPER_MAGIC;
}

int pool_catalogue_room_enter(struct catalogue_sqlite *cat, struct catalogue_room *ret,
			      struct cairn_err *err)
{
	cairn_cleanup(pool_conn_closep) struct conn *conn = NULL;
	int rc;

	close_all(cat);
	rc = pool_conn_open_alone(cat->path, &conn, err);
	if (rc == 0)
		rc = pool_conn_exec(conn, "PRAGMA synchronous=FULL", err);
	ret->in_place = writes_in_place(cat);
	if (rc == 0 && !ret->in_place)
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
 * checkpoint; the second one restarts the log, and SQLite then cuts it to the limit. Where
 * blocks are written in place, the log keeps enough of them for the next commit.
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
	return pool_conn_exec(conn,
			      room->in_place ? "PRAGMA journal_size_limit=" LOG_KEPT
					       ";" CATALOGUE_TOUCH_SQL
					     : "PRAGMA journal_size_limit=0;" CATALOGUE_TOUCH_SQL,
			      NULL) == 0;
}

/* Zeros are an index that is not initialised. XFS needs more free blocks for a large
 * write than it then takes. The next process that needs the index adds what is missing. */
static void restore_index(int fd)
{
	static const char zeros[4096];

	for (uint64_t at = 0; at < INDEX_SIZE; at += sizeof(zeros))
		if (cairn_pwrite_full(fd, zeros, sizeof(zeros), at) != 0 || fdatasync(fd) < 0)
			return;
}

void pool_catalogue_room_leave(const struct catalogue_sqlite *cat, struct catalogue_room *room)
{
	(void)pool_catalogue_room_shorten(room);
	if (room->index_fd >= 0) {
		give_back(cat, room->index_fd);
		restore_index(room->index_fd);
	}
	pool_conn_close(cairn_take(room->conn));
	cairn_closep(&room->index_fd);
}
