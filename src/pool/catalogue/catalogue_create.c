/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_conn.h"

#define TEMP_FILE CATALOGUE_FILE ".tmp"

/* Processes of this program hold the lock for some milliseconds. */
#define LOCK_WAIT_MS  3000U
#define LOCK_PAUSE_MS 5U

#define TEXT2(x) #x
#define TEXT(x)  TEXT2(x)

/* The journal mode is recorded in the file; setting it last leaves one plain
 * file without a log. */
/* clang-format off */
static const char create_sql[] =
	"PRAGMA page_size=4096;"
	"PRAGMA journal_mode=MEMORY;"
	"PRAGMA synchronous=FULL;"
	"BEGIN;"
	CATALOGUE_SCHEMA ";"
	"PRAGMA application_id=" TEXT(CATALOGUE_APPLICATION_ID) ";"
	"PRAGMA user_version=" TEXT(CATALOGUE_VERSION) ";"
	CATALOGUE_LOG_SQL ";"
	"COMMIT;"
	"PRAGMA journal_mode=WAL";
/* clang-format on */

static void remove_files(int dir_fd, const char *name)
{
	static const char *const endings[] = {"", "-wal", "-shm", "-journal", "-trust"};
	char path[64];

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", name, endings[i]);
		unlinkat(dir_fd, path, 0);
	}
}

static int catalogue_create_fill(const char *path, struct cairn_err *err)
{
	sqlite3 *db = NULL;
	int rc = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	int code = 0;

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(db, create_sql, NULL, NULL, NULL);
	if (rc != SQLITE_OK)
		code = pool_conn_result_err(path, db, rc, err);
	if (sqlite3_close(db) != SQLITE_OK && code == 0)
		code = cairn_err_set(err, CAIRN_INTERNAL, "close '%s'", path);
	return code;
}

static int make_temp(int dir_fd, const char *path, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	int rc;

	/* SQLite would make it world-readable; its log gets the same mode. */
	fd = openat(dir_fd, TEMP_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cairn_err_sys(err, errno, "create '%s'", path);
	rc = catalogue_create_fill(path, err);
	if (rc == 0 && fsync(fd) != 0)
		rc = cairn_err_sys(err, errno, "sync '%s'", path);
	return rc;
}

static int put_in_place(int dir_fd, const char *dir, struct cairn_err *err)
{
	/* The lock on the directory makes the check and the rename atomic. */
	if (faccessat(dir_fd, CATALOGUE_FILE, F_OK, 0) == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "'%s' has a catalogue already", dir);
	/* An older version leaves this file when it destroys a pool. */
	if (unlinkat(dir_fd, CATALOGUE_FILE "-trust", 0) != 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s/" CATALOGUE_FILE "-trust'", dir);
	if (renameat(dir_fd, TEMP_FILE, dir_fd, CATALOGUE_FILE) != 0)
		return cairn_err_sys(err, errno, "rename '%s/" TEMP_FILE "'", dir);
	return cairn_sync_dir(dir_fd, dir, err);
}

static int lock_directory(int dir_fd, const char *dir, struct cairn_err *err)
{
	for (unsigned ms = 0; flock(dir_fd, LOCK_EX | LOCK_NB) < 0; ms += LOCK_PAUSE_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return cairn_err_sys(err, errno, "lock '%s'", dir);
		if (ms >= LOCK_WAIT_MS)
			return cairn_err_set(err, CAIRN_ABORTED,
					     "another process has locked the directory '%s' (see "
					     "flock(2))",
					     dir);
		cairn_sleep_ms(LOCK_PAUSE_MS);
	}
	return 0;
}

/* From here on the main file always has a log, and is marked so. */
static int begin_log(const char *dir, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_closep) struct catalogue *cat = NULL;
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_open_lossy(dir, true, &cat, err);

	if (rc == 0)
		rc = pool_catalogue_batch_new(cat, &batch, err);
	return rc == 0 ? pool_catalogue_commit(batch, CATALOGUE_DURABLE, err) : rc;
}

int pool_catalogue_create(const char *dir, struct cairn_err *err)
{
	cairn_auto_fd int dir_fd = -1;
	cairn_auto_free char *path = NULL;
	char real[PATH_MAX];
	int rc;

	if (!realpath(dir, real))
		return cairn_err_sys(err, errno, "directory '%s'", dir);
	path = cairn_printf("%s/" TEMP_FILE, real);
	if (!path)
		return cairn_err_nomem(err, "catalogue");
	dir_fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", dir);
	rc = lock_directory(dir_fd, dir, err);
	if (rc != 0)
		return rc;
	if (faccessat(dir_fd, CATALOGUE_FILE, F_OK, 0) == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "'%s' has a catalogue already", dir);
	remove_files(dir_fd, TEMP_FILE);
	rc = make_temp(dir_fd, path, err);
	if (rc == 0)
		rc = put_in_place(dir_fd, dir, err);
	if (rc != 0) {
		remove_files(dir_fd, TEMP_FILE);
		return rc;
	}
	rc = begin_log(real, err);
	if (rc != 0)
		remove_files(dir_fd, CATALOGUE_FILE);
	return rc;
}
