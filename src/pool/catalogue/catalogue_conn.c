/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_conn.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_vfs.h"

/* Of the field "default page cache size" in the header of the main file. */
#define CACHE_SIZE_OFFSET 48

/* No record or statement is longer; this bounds a damaged length. */
#define CONN_LENGTH_MAX (1 << 20)

/* How long to wait for the other connections: one that is in use is so for milliseconds,
 * and an idle one of another process may stay for days. */
#define CONN_ALONE_MS 3000

static const char *const stmt_text[CONN_STMT_COUNT] = {
	[CONN_GET] = "SELECT v FROM kv WHERE k=?1",
	[CONN_SCAN] = "SELECT k,v FROM kv WHERE k>=?1 ORDER BY k",
	[CONN_PUT] = "REPLACE INTO kv(k,v)VALUES(?1,?2)",
	[CONN_DELETE] = "DELETE FROM kv WHERE k=?1",
	[CONN_BEGIN] = "BEGIN IMMEDIATE",
	[CONN_COMMIT] = "COMMIT",
	[CONN_ROLLBACK] = "ROLLBACK",
};

static struct conn_stamp stamp_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return (struct conn_stamp){0};
	return (struct conn_stamp){
		.ino = (uint64_t)st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns =
			(uint64_t)st.st_mtim.tv_sec * 1000000000ULL + (uint64_t)st.st_mtim.tv_nsec,
	};
}

/* The log of the catalogue: our own path plus SQLite's suffix. */
static struct conn_stamp log_stamp_of(const struct conn *conn)
{
	cairn_auto_free char *name = cairn_printf("%s-wal", conn->path);

	return name ? stamp_of(name) : (struct conn_stamp){0};
}

static bool same_stamp(struct conn_stamp a, struct conn_stamp b)
{
	return a.ino == b.ino && a.size == b.size && a.mtime_ns == b.mtime_ns;
}

bool pool_conn_is_stale(const struct conn *conn)
{
	if (!conn->lockless)
		return !pool_catalogue_disk_vfs_is_linked(conn->db);
	return !(same_stamp(conn->file, stamp_of(conn->path)) &&
		 same_stamp(conn->log, log_stamp_of(conn)));
}

/* "file:" and the path, with all characters escaped that are special in a
 * URI. */
static char *uri_of(const char *path, const char *query)
{
	static const char hex[] = "0123456789ABCDEF";
	char *uri = cairn_alloc(strlen(path) * 3 + strlen(query) + sizeof("file:"));
	char *out = uri;

	if (!uri)
		return NULL;
	memcpy(out, "file:", 5);
	out += 5;
	for (const char *p = path; *p; p++) {
		if (*p == '%' || *p == '?' || *p == '#') {
			*out++ = '%';
			*out++ = hex[(unsigned char)*p >> 4];
			*out++ = hex[(unsigned char)*p & 15];
		} else {
			*out++ = *p;
		}
	}
	memcpy(out, query, strlen(query) + 1);
	return uri;
}

static int pragma_number(sqlite3 *db, const char *sql, int64_t *ret)
{
	sqlite3_stmt *stmt = NULL;
	int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		*ret = sqlite3_column_int64(stmt, 0);
	/* After a failed step, finalize returns the code again. */
	int final = sqlite3_finalize(stmt);

	return rc == SQLITE_ROW ? SQLITE_OK : final != SQLITE_OK ? final : rc;
}

/* A truncated file must be an error and not SIGBUS, hence no mmap; the file is
 * untrusted input, hence the other settings. */
static int catalogue_conn_harden(sqlite3 *db)
{
	static const int switches[][2] = {
		{SQLITE_DBCONFIG_DEFENSIVE, 1},
		{SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
		{SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
		{SQLITE_DBCONFIG_ENABLE_VIEW, 0},
		/* The log stays for the next process: a checkpoint at each
		 * close would cost every short command two syncs. */
		{SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1},
	};
	int rc = sqlite3_busy_timeout(db, CATALOGUE_BUSY_MS);

	for (size_t i = 0; rc == SQLITE_OK && i < sizeof(switches) / sizeof(switches[0]); i++)
		rc = sqlite3_db_config(db, switches[i][0], switches[i][1], NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, CONN_LENGTH_MAX);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db,
				  "PRAGMA mmap_size=0;PRAGMA cell_size_check=1;"
				  "PRAGMA temp_store=MEMORY;PRAGMA journal_size_limit=1048576",
				  NULL, NULL, NULL);
	return rc;
}

static int catalogue_conn_check_header(struct conn *conn, int *ret_rc, struct cairn_err *err)
{
	int64_t id = 0, version = 0;
	int rc = pragma_number(conn->db, "PRAGMA application_id", &id);

	if (rc == SQLITE_OK)
		rc = pragma_number(conn->db, "PRAGMA user_version", &version);
	*ret_rc = rc;
	if (rc != SQLITE_OK)
		return pool_conn_err(conn, rc, err);
	if (id != CATALOGUE_APPLICATION_ID || version < 1)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "'%s' is not the catalogue of a pool",
				     conn->path);
	if (version > CATALOGUE_VERSION)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "catalogue '%s' has version %lld; this program supports %d",
				     conn->path, (long long)version, CATALOGUE_VERSION);
	return 0;
}

int pool_conn_has_had_log(const struct conn *conn, struct cairn_err *err)
{
	uint8_t field[4];
	size_t n = 0;

	if (pool_catalogue_disk_vfs_read(conn->db, field, sizeof(field), CACHE_SIZE_OFFSET, &n) < 0)
		return cairn_err_sys(err, errno, "catalogue '%s'", conn->path);
	return n == sizeof(field) && ((uint32_t)field[0] << 24 | (uint32_t)field[1] << 16 |
				      (uint32_t)field[2] << 8 | field[3]) == CATALOGUE_LOG_PAGES;
}

/* Parameters of SQLite for one way of opening. */
struct open_way {
	const char *name, *vfs;
	int flags;
	bool exclusive;
};

static int open_way(struct conn *conn, const struct open_way *way, int *ret_rc,
		    struct cairn_err *err)
{
	int rc = sqlite3_open_v2(way->name, &conn->db,
				 way->flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
					 SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW,
				 way->vfs);

	if (rc == SQLITE_OK)
		rc = catalogue_conn_harden(conn->db);
	if (rc == SQLITE_OK && way->exclusive)
		rc = sqlite3_busy_timeout(conn->db, CONN_ALONE_MS);
	if (rc == SQLITE_OK && way->exclusive)
		rc = sqlite3_exec(conn->db, "PRAGMA locking_mode=EXCLUSIVE", NULL, NULL, NULL);
	/* This statement reads the file, so the locking mode must be set
	 * before. */
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(conn->db, CATALOGUE_CACHE_SQL, NULL, NULL, NULL);
	*ret_rc = rc;
	if (rc != SQLITE_OK)
		return pool_conn_err(conn, rc, err);
	return catalogue_conn_check_header(conn, ret_rc, err);
}

/* For a reader that cannot create the shared index of the log: works without
 * locks. With a log, its index is built in memory ("exclusive" keeps it there);
 * without one only the main file is read. */
static int open_lockless(struct conn *conn, struct cairn_err *err)
{
	cairn_auto_free char *uri = uri_of(conn->path, "?immutable=1");
	int rc;

	if (!uri)
		return cairn_err_nomem(err, conn->path);
	sqlite3_close_v2(conn->db);
	conn->db = NULL;
	conn->lockless = true;
	conn->file = stamp_of(conn->path);
	conn->log = log_stamp_of(conn);
	struct open_way way = {.name = conn->path,
			       .vfs = "unix-none",
			       .flags = SQLITE_OPEN_READONLY,
			       .exclusive = true};
	if (conn->log.ino == 0)
		way = (struct open_way){.name = uri,
					.flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI};
	return open_way(conn, &way, &rc, err);
}

static int new_conn(const char *path, struct conn **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_conn_closep) struct conn *conn = cairn_calloc(1, sizeof(*conn));
	int rc = pool_catalogue_disk_vfs_register();

	if (!conn)
		return cairn_err_nomem(err, "catalogue");
	conn->path = cairn_strdup(path);
	if (!conn->path)
		return cairn_err_nomem(err, "catalogue");
	*ret = cairn_take(conn);
	return rc == SQLITE_OK ? 0 : pool_conn_err(*ret, rc, err);
}

int pool_conn_open(const char *path, bool writable, struct conn **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_conn_closep) struct conn *conn = NULL;
	const struct open_way way = {
		.name = path,
		.vfs = writable ? pool_catalogue_vfs_name() : CATALOGUE_DISK_VFS,
		.flags = writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY,
	};
	int code = new_conn(path, &conn, err), rc;

	if (code)
		return code;
	if (writable && !way.vfs)
		return cairn_err_nomem(err, "catalogue");
	code = open_way(conn, &way, &rc, err);
	if (!writable && ((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY ||
			  (rc & 0xff) == SQLITE_FULL))
		code = open_lockless(conn, err);
	if (code != 0)
		return code;
	*ret = cairn_take(conn);
	return 0;
}

int pool_conn_open_alone(const char *path, struct conn **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_conn_closep) struct conn *conn = NULL;
	const struct open_way way = {.name = path,
				     .vfs = pool_catalogue_vfs_name(),
				     .flags = SQLITE_OPEN_READWRITE,
				     .exclusive = true};
	int code = new_conn(path, &conn, err), rc;

	if (!code && !way.vfs)
		code = cairn_err_nomem(err, "catalogue");
	if (!code)
		code = open_way(conn, &way, &rc, err);
	if (code)
		return code;
	*ret = cairn_take(conn);
	return 0;
}

void pool_conn_close(struct conn *conn)
{
	if (!conn)
		return;
	for (size_t i = 0; i < CONN_STMT_COUNT; i++)
		sqlite3_finalize(conn->stmts[i]);
	sqlite3_close_v2(conn->db);
	free(conn->path);
	free(conn);
}

int pool_conn_stmt(struct conn *conn, enum pool_conn_stmt which, sqlite3_stmt **ret,
		   struct cairn_err *err)
{
	if (!conn->stmts[which]) {
		int rc = sqlite3_prepare_v3(conn->db, stmt_text[which], -1,
					    SQLITE_PREPARE_PERSISTENT, &conn->stmts[which], NULL);

		if (rc != SQLITE_OK)
			return pool_conn_err(conn, rc, err);
	}
	*ret = conn->stmts[which];
	return 0;
}

int pool_conn_run(struct conn *conn, enum pool_conn_stmt which, struct cairn_err *err)
{
	sqlite3_stmt *stmt = NULL;
	int rc = pool_conn_stmt(conn, which, &stmt, err);

	if (rc != 0)
		return rc;
	rc = sqlite3_step(stmt);
	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? 0 : pool_conn_err(conn, rc, err);
}

int pool_conn_exec(struct conn *conn, const char *sql, struct cairn_err *err)
{
	int rc = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : pool_conn_err(conn, rc, err);
}

struct catalogue_bytes pool_conn_column(sqlite3_stmt *stmt, int column)
{
	struct catalogue_bytes bytes = {NULL, 0};

	if (sqlite3_column_type(stmt, column) != SQLITE_BLOB)
		return bytes;
	bytes.data = sqlite3_column_blob(stmt, column);
	bytes.len = (size_t)sqlite3_column_bytes(stmt, column);
	return bytes;
}
