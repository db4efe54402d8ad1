/* SPDX-License-Identifier: Apache-2.0 */

/* One SQLite connection to a catalogue file, set up the way a catalogue needs
 * it, and the translation of SQLite's result codes into ours.
 *
 * A connection belongs to one thread at a time. Nothing else in this process
 * may open the catalogue file: closing any descriptor of it would drop the
 * POSIX locks of every connection.
 */
#ifndef CAIRN_POOL_CATALOGUE_CONN_H
#define CAIRN_POOL_CATALOGUE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/cleanup.h"
#include "pool/catalogue/catalogue.h"

#define CATALOGUE_FILE           "catalogue.db"
#define CATALOGUE_SCHEMA         "CREATE TABLE kv(k BLOB PRIMARY KEY,v BLOB NOT NULL)WITHOUT ROWID"
#define CATALOGUE_APPLICATION_ID 0x4341524e /* "CARN" */
#define CATALOGUE_VERSION        1
#define CATALOGUE_CHECKSUM_LEN   CATALOGUE_SUM_LEN

/* Statement that marks the main file, once the page is copied there, as one that always has
 * a log. It sets a header field that SQLite reserves for a cache size, which each
 * connection here sets for itself; older versions ignore it. */
#define CATALOGUE_LOG_PAGES 1021
#define CATALOGUE_LOG_SQL   "PRAGMA default_cache_size=1021"
/* Takes the mark away, and is a transaction of one frame. */
#define CATALOGUE_NO_LOG_SQL \
	"BEGIN IMMEDIATE;PRAGMA user_version=1;PRAGMA default_cache_size=0;COMMIT"

/* Page cache of a connection, 256 KiB: a driver has many connections, and the kernel
 * caches the file too. */
#define CATALOGUE_CACHE_SQL "PRAGMA cache_size=-256"

/* A transaction of one frame. */
#define CATALOGUE_TOUCH_SQL "BEGIN IMMEDIATE;PRAGMA user_version=1;COMMIT"

/* How long a writer waits for another process's commit. */
#define CATALOGUE_BUSY_MS 15000

enum pool_conn_stmt {
	CONN_GET,
	CONN_SCAN,
	CONN_PUT,
	CONN_DELETE,
	CONN_BEGIN,
	CONN_COMMIT,
	CONN_ROLLBACK,
	CONN_STMT_COUNT,
};

/* A file's identity and times when it was opened; see pool_conn_is_stale(). */
struct conn_stamp {
	uint64_t ino, size, mtime_ns;
};

struct conn {
	struct conn *next; /* in the list of idle ones */
	sqlite3 *db;
	sqlite3_stmt *stmts[CONN_STMT_COUNT];
	char *path;
	bool lockless;
	struct conn_stamp file, log; /* of a lockless one */
	bool full_sync;
	bool says_log;      /* CATALOGUE_LOG_SQL was seen to */
	bool log_is_copied; /* all of the log, since the last commit */
	int log_pages;      /* in the write-ahead log after the last commit */
};

/* Opens the file and checks that it is a catalogue; codes of pool_catalogue_open().
 * A reader also works where nothing can be written. `path` is absolute. */
int pool_conn_open(const char *path, bool writable, struct conn **ret, struct cairn_err *err);
/* For writing, without the index of the log: excludes every other connection until it is
 * closed. CAIRN_ABORTED when there are others. */
int pool_conn_open_alone(const char *path, struct conn **ret, struct cairn_err *err);
void pool_conn_close(struct conn *conn);
CAIRN_DEFINE_CLEANUP(struct conn, pool_conn_close);

/* If not even the shared index of the log can be created, a reader works
 * without locks on the state that it found. True when a process with more
 * rights has changed the files since, so that the data read may be torn. True
 * also when the shared index was removed, because writers then do not see this
 * reader's locks. */
bool pool_conn_is_stale(const struct conn *conn);

/* 1 when the main file is marked as always having a log (CATALOGUE_LOG_SQL), 0 when not, or
 * an error. */
int pool_conn_has_had_log(const struct conn *conn, struct cairn_err *err);

/* The statement, prepared once and cached; borrowed, and reset by the caller
 * after use. */
int pool_conn_stmt(struct conn *conn, enum pool_conn_stmt which, sqlite3_stmt **ret,
		   struct cairn_err *err);

/* Runs a statement that returns nothing. */
int pool_conn_run(struct conn *conn, enum pool_conn_stmt which, struct cairn_err *err);
int pool_conn_exec(struct conn *conn, const char *sql, struct cairn_err *err);

/* Fills `err` from a result code that is neither OK, ROW nor DONE. */
int pool_conn_err(struct conn *conn, int rc, struct cairn_err *err);

/* The same for a database handle that is not a struct conn. */
int pool_conn_result_err(const char *path, sqlite3 *db, int rc, struct cairn_err *err);

/* A blob column of the current row, borrowed until the next step. Data is NULL
 * only when memory is short or the column is not a blob. */
struct catalogue_bytes pool_conn_column(sqlite3_stmt *stmt, int column);

#endif
