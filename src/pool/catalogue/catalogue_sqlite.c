/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_loss.h"
#include "pool/catalogue/catalogue_mark.h"

/* Connections kept for the next readers; each holds two descriptors and some
 * kilobytes of cache. */
#define IDLE_MAX 8U

static const struct catalogue_ops sqlite_ops;

static struct catalogue_sqlite *sqlite_of(struct catalogue *base)
{
	return (struct catalogue_sqlite *)base;
}

static void sqlite_close(struct catalogue *base)
{
	struct catalogue_sqlite *cat = sqlite_of(base);

	while (cat->idle) {
		struct conn *next = cat->idle->next;

		pool_conn_close(cat->idle);
		cat->idle = next;
	}
	pool_catalogue_begin_log_anew(cat->writer);
	pool_conn_close(cat->writer);
	pthread_mutex_destroy(&cat->readers_lock);
	pthread_mutex_destroy(&cat->group_lock);
	pthread_mutex_destroy(&cat->writer_lock);
	free(cat->path);
	free(cat);
}

static void sqlite_freep(struct catalogue_sqlite **cat)
{
	if (*cat)
		sqlite_close(&(*cat)->base);
}

/* SQLite looks for a rollback journal next to every file. A catalogue never has
 * one. */
static int look_for_journal(const char *path, struct cairn_err *err)
{
	cairn_auto_free char *name = cairn_printf("%s-journal", path);
	struct stat st;

	if (!name)
		return cairn_err_nomem(err, "catalogue");
	if (lstat(name, &st) == 0 && !S_ISREG(st.st_mode))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' is not a file", name);
	return 0;
}

/* Checks the file before SQLite does: SQLite's codes do not distinguish these
 * cases, opening a FIFO would block for ever, and SQLite removes the log next to
 * an empty file. */
static int look_at_file(const char *path, bool writable, struct cairn_err *err)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return cairn_err_sys(err, errno, "catalogue '%s'", path);
	if (!S_ISREG(st.st_mode))
		return cairn_err_set(err, CAIRN_DATA_LOSS, "catalogue '%s' is not a file", path);
	if (st.st_size == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "catalogue '%s' is empty", path);
	if (access(path, writable ? R_OK | W_OK : R_OK) != 0)
		return cairn_err_sys(err, errno, "catalogue '%s'", path);
	return look_for_journal(path, err);
}

static int catalogue_new(const char *dir, bool writable, struct catalogue_sqlite **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(sqlite_freep) struct catalogue_sqlite *cat = cairn_calloc(1, sizeof(*cat));
	char real[PATH_MAX];

	if (!cat)
		return cairn_err_nomem(err, "catalogue");
	pthread_mutex_init(&cat->readers_lock, NULL);
	pthread_mutex_init(&cat->group_lock, NULL);
	pthread_mutex_init(&cat->writer_lock, NULL);
	cat->group_tail = &cat->group;
	cat->base.ops = &sqlite_ops;
	cat->base.writable = writable;
	/* Further connections are opened later, when the working directory may
	 * have changed. */
	if (!realpath(dir, real))
		return cairn_err_sys(err, errno, "directory '%s'", dir);
	cat->path = cairn_printf("%s/" CATALOGUE_FILE, strcmp(real, "/") == 0 ? "" : real);
	if (!cat->path)
		return cairn_err_nomem(err, "catalogue");
	*ret = cairn_take(cat);
	return 0;
}

int pool_catalogue_open_lossy(const char *dir, bool writable, struct catalogue **ret,
			      struct cairn_err *err)
{
	cairn_cleanup(sqlite_freep) struct catalogue_sqlite *cat = NULL;
	int rc = catalogue_new(dir, writable, &cat, err);

	if (rc == 0)
		rc = look_at_file(cat->path, writable, err);
	if (rc == 0)
		rc = pool_catalogue_find_loss(cat, err);
	if (rc != 0)
		return rc;
	*ret = &cairn_take(cat)->base;
	return 0;
}

int pool_catalogue_open(const char *dir, bool writable, struct catalogue **ret,
			struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_closep) struct catalogue *cat = NULL;
	int rc = pool_catalogue_open_lossy(dir, writable, &cat, err);

	if (rc == 0 && sqlite_of(cat)->log_fault)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "'%s-wal' %s: what was committed last is lost; put the file "
				     "back, or go on without it: cairn pool check --repair",
				     sqlite_of(cat)->path, sqlite_of(cat)->log_fault);
	if (rc != 0)
		return rc;
	*ret = cairn_take(cat);
	return 0;
}

static const char *sqlite_log_fault(const struct catalogue *base)
{
	return ((const struct catalogue_sqlite *)base)->log_fault;
}

static int sqlite_accept_log(struct catalogue *base, struct cairn_err *err)
{
	struct catalogue_sqlite *cat = sqlite_of(base);

	if (pool_catalogue_mark_clear(cat->path) < 0)
		return cairn_err_sys(err, errno, "'%s-trust'", cat->path);
	cat->log_fault = NULL;
	return 0;
}

static int sqlite_hold(struct catalogue *base)
{
	struct catalogue_sqlite *cat = sqlite_of(base);
	struct conn *conn = NULL;
	int fd;

	if (pool_catalogue_reader_take(cat, &conn, NULL) != 0)
		return -1;
	fd = pool_catalogue_disk_vfs_hold(conn->db);
	pool_catalogue_reader_release(cat, conn, true);
	return fd;
}

int pool_catalogue_reader_take(struct catalogue_sqlite *cat, struct conn **ret,
			       struct cairn_err *err)
{
	for (;;) {
		struct conn *conn;

		pthread_mutex_lock(&cat->readers_lock);
		conn = cat->idle;
		if (conn) {
			cat->idle = conn->next;
			cat->n_idle--;
		}
		pthread_mutex_unlock(&cat->readers_lock);
		if (!conn)
			return pool_conn_open(cat->path, false, ret, err);
		if (!pool_conn_is_stale(conn)) {
			*ret = conn;
			return 0;
		}
		pool_conn_close(conn);
	}
}

void pool_catalogue_reader_release(struct catalogue_sqlite *cat, struct conn *conn, bool reuse)
{
	if (reuse) {
		cairn_scoped_lock(&cat->readers_lock);
		if (cat->n_idle < IDLE_MAX && !cat->lets_go) {
			conn->next = cat->idle;
			cat->idle = conn;
			cat->n_idle++;
			return;
		}
	}
	pool_conn_close(conn);
}

static int take_value(struct conn *conn, struct catalogue_bytes key, bool stored,
		      sqlite3_stmt *stmt, uint8_t **ret_data, size_t *ret_len,
		      struct cairn_err *err)
{
	struct catalogue_bytes value = pool_conn_column(stmt, 0);
	uint8_t *data;

	if (!stored && !pool_catalogue_unwrap(key, value, &value)) {
		if (sqlite3_errcode(conn->db) == SQLITE_NOMEM)
			return cairn_err_nomem(err, conn->path);
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "catalogue '%s': a record does not fit its checksum",
				     conn->path);
	}
	data = cairn_alloc(value.len + 1);
	if (!data)
		return cairn_err_nomem(err, "catalogue record");
	if (value.len > 0)
		memcpy(data, value.data, value.len);
	data[value.len] = 0;
	*ret_data = data;
	*ret_len = value.len;
	return 0;
}

static int get_with(struct conn *conn, struct catalogue_bytes key, bool stored, uint8_t **ret_data,
		    size_t *ret_len, struct cairn_err *err)
{
	sqlite3_stmt *stmt = NULL;
	int code = pool_conn_stmt(conn, CONN_GET, &stmt, err);
	int rc;

	if (code != 0)
		return code;
	rc = sqlite3_bind_blob(stmt, 1, key.data, (int)key.len, SQLITE_STATIC);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		code = take_value(conn, key, stored, stmt, ret_data, ret_len, err);
	else if (rc == SQLITE_DONE)
		code = cairn_err_set(err, CAIRN_NOT_FOUND, "no such record in the catalogue");
	else
		code = pool_conn_err(conn, rc, err);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return code;
}

static int sqlite_batch_get(struct catalogue_batch *batch, struct catalogue_bytes key,
			    uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	return get_with(batch->transaction, key, false, ret_data, ret_len, err);
}

static int sqlite_get(struct catalogue *base, struct catalogue_bytes key, bool stored,
		      uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	struct catalogue_sqlite *cat = sqlite_of(base);
	cairn_auto_free uint8_t *data = NULL;
	struct conn *conn = NULL;
	size_t len = 0;
	bool stale;
	int rc;

	rc = pool_catalogue_reader_take(cat, &conn, err);
	if (rc != 0)
		return rc;
	rc = get_with(conn, key, stored, &data, &len, err);
	stale = pool_conn_is_stale(conn);
	pool_catalogue_reader_release(cat, conn, !stale && (rc == 0 || rc == CAIRN_NOT_FOUND));
	if (stale)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "catalogue '%s' was changed while it was read", cat->path);
	if (rc != 0)
		return rc;
	*ret_data = cairn_take(data);
	*ret_len = len;
	return 0;
}

static int check_lines(struct conn *conn, const char *sql, const char *good,
		       void (*report)(void *arg, const char *line), void *arg,
		       struct cairn_err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(conn->db, sql, -1, &stmt, NULL);
	unsigned rows = 0;

	if (rc == SQLITE_OK)
		while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
			const char *line = (const char *)sqlite3_column_text(stmt, 0);

			rows++;
			if (!line || strcmp(line, good) != 0)
				report(arg, line ? line : "catalogue: unexpected empty entry");
		}
	sqlite3_finalize(stmt);
	if (rc != SQLITE_DONE)
		return pool_conn_err(conn, rc, err);
	if (rows == 0)
		report(arg, "catalogue: its table is missing");
	return 0;
}

static int sqlite_check(struct catalogue *base, void (*report)(void *arg, const char *line),
			void *arg, struct cairn_err *err)
{
	struct catalogue_sqlite *cat = sqlite_of(base);
	struct cairn_err local = {0};
	struct conn *conn = NULL;
	int rc = pool_catalogue_reader_take(cat, &conn, err);

	if (rc != 0)
		return rc;
	rc = check_lines(conn, "PRAGMA integrity_check", "ok", report, arg, &local);
	if (rc == 0)
		rc = check_lines(conn, "SELECT sql FROM sqlite_schema", CATALOGUE_SCHEMA, report,
				 arg, &local);
	pool_catalogue_reader_release(cat, conn, rc == 0);
	if (rc == CAIRN_DATA_LOSS) {
		report(arg, local.msg);
		return 0;
	}
	if (rc != 0 && err)
		*err = local;
	return rc;
}

static const struct catalogue_ops sqlite_ops = {
	.name = "sqlite",
	.close = sqlite_close,
	.get = sqlite_get,
	.scan = pool_catalogue_sqlite_scan,
	.batch_get = sqlite_batch_get,
	.commit = pool_catalogue_sqlite_commit,
	.is_certain = pool_catalogue_sqlite_is_certain,
	.check = sqlite_check,
	.hold = sqlite_hold,
	.log_fault = sqlite_log_fault,
	.accept_log = sqlite_accept_log,
	.make_room = pool_catalogue_sqlite_make_room,
	.let_go = pool_catalogue_sqlite_let_go,
	.prefer_room = pool_catalogue_sqlite_prefer_room,
};
