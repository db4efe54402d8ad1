/* SPDX-License-Identifier: Apache-2.0 */

/* SQLite's results as errors of a pool. */

#include "pool/catalogue/catalogue_conn.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/store/pool_image.h"

static int code_of_result(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_FULL:
	case SQLITE_NOMEM:
		return CAIRN_NO_SPACE;
	/* The plain result is that of a write. Its extended forms are also those of reads, whose
	 * callers take CAIRN_PRECONDITION for an expired snapshot. */
	case SQLITE_READONLY:
		return rc == SQLITE_READONLY ? CAIRN_PRECONDITION : CAIRN_UNAVAILABLE;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
		return CAIRN_ABORTED;
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return CAIRN_DENIED;
	/* Our statements are fixed: if one does not compile or match, the
	 * schema or a row is not ours. */
	case SQLITE_ERROR:
	case SQLITE_SCHEMA:
	case SQLITE_TOOBIG:
	case SQLITE_MISMATCH:
	case SQLITE_CONSTRAINT:
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
		return CAIRN_DATA_LOSS;
	case SQLITE_CANTOPEN:
		return CAIRN_DENIED;
	default:
		return CAIRN_INTERNAL;
	}
}

/* SQLite keeps errno only for some failures, and reports a shared-memory file
 * that could not be created as "read-only". If errno right after the call
 * indicates lack of space or memory, that is the cause. */
static int cause_of(sqlite3 *db, int rc, int errno_now)
{
	int sys_errno = db ? sqlite3_system_errno(db) : 0;
	bool telling = errno_now == ENOSPC || errno_now == EDQUOT || errno_now == ENOMEM;

	switch (rc & 0xff) {
	case SQLITE_IOERR:
		return sys_errno ? sys_errno : errno_now;
	case SQLITE_CANTOPEN:
		return sys_errno;
	case SQLITE_READONLY:
		return telling ? errno_now : 0;
	default:
		return 0;
	}
}

/* Callers take CAIRN_NOT_FOUND for a missing record and remove its data, and
 * CAIRN_PRECONDITION for a snapshot that has expired, so a failure of the catalogue's
 * files must not have such a code. */
static int files_err(const char *path, int sys_errno, struct cairn_err *err)
{
	int rc = cairn_err_sys(err, sys_errno, "catalogue '%s'", path);

	return rc == CAIRN_NOT_FOUND || rc == CAIRN_EXISTS || rc == CAIRN_PRECONDITION
		       ? cairn_err_recode(err, CAIRN_UNAVAILABLE)
		       : rc;
}

/* A filesystem that has shut down fails in any way, also as if files were damaged. Nothing is
 * known about them then. */
static bool has_filesystem_stopped(const char *path)
{
	cairn_auto_free char *dir = cairn_strndup(path, (size_t)(strrchr(path, '/') - path));

	return dir && pool_image_has_stopped(dir);
}

int pool_conn_result_err(const char *path, sqlite3 *db, int rc, struct cairn_err *err)
{
	int sys_errno = cause_of(db, rc, errno);

	if (rc == SQLITE_IOERR_NOMEM)
		return cairn_err_nomem(err, path);
	if ((rc & 0xff) != SQLITE_BUSY && has_filesystem_stopped(path))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "catalogue '%s': its filesystem has shut down after an error",
				     path);
	if (rc == SQLITE_IOERR_SHORT_READ || rc == SQLITE_IOERR_CORRUPTFS)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "catalogue '%s': %s", path,
				     "the file is cut short");
	if (sys_errno != 0)
		return files_err(path, sys_errno, err);
	if ((rc & 0xff) == SQLITE_READONLY)
		return cairn_err_set(err, code_of_result(rc),
				     "catalogue '%s' cannot be written: it is read-only, or there "
				     "is no room for the files beside it",
				     path);
	return cairn_err_set(err, code_of_result(rc), "catalogue '%s': %s", path,
			     sqlite3_errstr(rc));
}

int pool_conn_err(struct conn *conn, int rc, struct cairn_err *err)
{
	return pool_conn_result_err(conn->path, conn->db, rc, err);
}
