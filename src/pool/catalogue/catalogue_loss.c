/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue_loss.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sqlite3.h>

#include "base/err.h"
#include "base/mem.h"
#include "block/checksum.h"
#include "pool/catalogue/catalogue_conn.h"
#include "pool/catalogue/catalogue_disk_vfs.h"
#include "pool/catalogue/catalogue_impl.h"
#include "pool/catalogue/catalogue_mark.h"

/* True when the index built from the log reaches the mark, or proves nothing. The
 * index of a connection without locks is unknown. */
static bool index_is_whole(const struct conn *conn, const struct catalogue_mark *mark)
{
	uint8_t salt[CATALOGUE_SALT_SIZE];
	uint64_t end;

	if (mark->end == 0)
		return true;
	if (conn->lockless)
		return false;
	return !pool_catalogue_disk_vfs_log_end(conn->db, salt, &end) ||
	       memcmp(salt, mark->salt, sizeof(salt)) != 0 || end >= mark->end;
}

/* A commit is added to the index after its sync, and the process may be killed in
 * between: then the log itself must reach the mark, unless a later commit moved
 * it. */
static int compare_log(struct catalogue_sqlite *cat, const struct conn *conn,
		       struct catalogue_mark *mark, struct cairn_err *err)
{
	while (!index_is_whole(conn, mark)) {
		int is_reached = pool_catalogue_mark_is_reached(cat->path, mark);
		struct catalogue_mark now;

		if (is_reached < 0)
			return cairn_err_sys(err, errno, "'%s-wal'", cat->path);
		if (is_reached)
			return 0;
		now = pool_catalogue_mark_read(cat->path);
		if (now.end == 0 && errno)
			return cairn_err_sys(err, errno, "'%s-trust'", cat->path);
		if (memcmp(&now, mark, sizeof(now)) == 0) {
			cat->log_fault = "is damaged";
			return 0;
		}
		*mark = now;
	}
	return 0;
}

/* 1 when the main file proves that a missing log held commits, 0 when it does not, or
 * an error. A page that still has its contents from before the last commit was not
 * copied from the log. */
static int main_proves_loss(const struct conn *conn, const struct catalogue_mark *mark,
			    struct cairn_err *err)
{
	struct catalogue_page page = pool_catalogue_page_read(conn->path);
	cairn_auto_free uint8_t *bytes = NULL;
	size_t n = 0;

	if (!page.number && errno)
		return cairn_err_sys(err, errno, "'%s-trust'", conn->path);
	if (!page.number)
		return mark->end == 0 ? pool_conn_has_had_log(conn, err) : 0;
	if (page.before == page.after)
		return 0;
	bytes = cairn_alloc(page.size);
	if (!bytes)
		return cairn_err_nomem(err, "catalogue");
	if (pool_catalogue_disk_vfs_read(conn->db, bytes, page.size,
					 (page.number - 1) * (uint64_t)page.size, &n) < 0)
		return cairn_err_sys(err, errno, "'%s'", conn->path);
	return block_checksum(bytes, n) == page.before;
}

/* Another process may have created a log since the first check. */
static int ask_main(struct catalogue_sqlite *cat, const struct conn *conn,
		    struct catalogue_mark *mark, const char *fault, struct cairn_err *err)
{
	bool is_proven;
	int rc = main_proves_loss(conn, mark, err);

	if (rc <= 0)
		return rc;
	*mark = pool_catalogue_mark_read(cat->path);
	if (pool_catalogue_mark_fault(cat->path, mark, &is_proven))
		cat->log_fault = fault;
	return 0;
}

int pool_catalogue_find_loss(struct catalogue_sqlite *cat, struct cairn_err *err)
{
	struct catalogue_mark mark = pool_catalogue_mark_read(cat->path);
	struct conn *conn = NULL;
	bool is_proven = false;
	const char *fault;
	int rc;

	/* Without the mark a log that is cut short or older would be accepted, and the next
	 * commit's mark hides it. */
	if (mark.end == 0 && errno)
		return cairn_err_sys(err, errno, "'%s-trust'", cat->path);
	fault = pool_catalogue_mark_fault(cat->path, &mark, &is_proven);
	cat->log_fault = is_proven ? fault : NULL;
	if (is_proven)
		return 0;
	rc = pool_catalogue_reader_take(cat, &conn, err);
	if (rc)
		return rc;
	rc = fault ? ask_main(cat, conn, &mark, fault, err) : compare_log(cat, conn, &mark, err);
	pool_catalogue_reader_release(cat, conn, true);
	return rc;
}
